#include "engines/worker/program/python_operators.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace mpnanny::worker {
namespace {

double Real(const IValue& value) {
  if (value.isInt()) return static_cast<double>(value.toInt());
  if (value.isBool()) return value.toBool() ? 1 : 0;
  return value.toDouble();
}

bool AreWhole(const IValue& a, const IValue& b) { return a.isInt() && b.isInt(); }

// As Python's: towards minus infinity.
int64_t FloorDivide(int64_t a, int64_t b) {
  if (b == 0) throw ModelProblem("A size is divided by zero.", "");
  if (b == -1) return -a;
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

int64_t Modulo(int64_t a, int64_t b) { return b == -1 ? 0 : a - b * FloorDivide(a, b); }

int64_t Power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result))
      throw ModelProblem("A size is too large.", "");
  }
  return result;
}

int64_t Checked(bool overflow, int64_t value) {
  if (overflow) throw ModelProblem("A size is too large.", "");
  return value;
}

int64_t Add(int64_t a, int64_t b) {
  int64_t c;
  const bool o = __builtin_add_overflow(a, b, &c);
  return Checked(o, c);
}
int64_t Subtract(int64_t a, int64_t b) {
  int64_t c;
  const bool o = __builtin_sub_overflow(a, b, &c);
  return Checked(o, c);
}
int64_t Multiply(int64_t a, int64_t b) {
  int64_t c;
  const bool o = __builtin_mul_overflow(a, b, &c);
  return Checked(o, c);
}

using Binary = IValue (*)(const IValue&, const IValue&);
using Unary = IValue (*)(const IValue&);

#define MPNANNY_NUMBERS(whole, real)                        \
  [](const IValue& a, const IValue& b) -> IValue {          \
    if (AreWhole(a, b)) return whole(a.toInt(), b.toInt()); \
    return real;                                            \
  }

const std::map<std::string, Binary>& Binaries() {
  static const std::map<std::string, Binary> kBinaries = {
      {"_operator.add", MPNANNY_NUMBERS(Add, Real(a) + Real(b))},
      {"_operator.sub", MPNANNY_NUMBERS(Subtract, Real(a) - Real(b))},
      {"_operator.mul", MPNANNY_NUMBERS(Multiply, Real(a) * Real(b))},
      {"_operator.floordiv", MPNANNY_NUMBERS(FloorDivide, std::floor(Real(a) / Real(b)))},
      {"_operator.mod", MPNANNY_NUMBERS(Modulo, Real(a) - Real(b) * std::floor(Real(a) / Real(b)))},
      {"_operator.pow",
       [](const IValue& a, const IValue& b) -> IValue {
         if (AreWhole(a, b) && b.toInt() >= 0) return Power(a.toInt(), b.toInt());
         return std::pow(Real(a), Real(b));
       }},
      {"_operator.truediv",
       [](const IValue& a, const IValue& b) -> IValue { return Real(a) / Real(b); }},
      {"_operator.eq",
       [](const IValue& a, const IValue& b) -> IValue { return Real(a) == Real(b); }},
      {"_operator.ne",
       [](const IValue& a, const IValue& b) -> IValue { return Real(a) != Real(b); }},
      {"_operator.ge",
       [](const IValue& a, const IValue& b) -> IValue { return Real(a) >= Real(b); }},
      {"_operator.gt",
       [](const IValue& a, const IValue& b) -> IValue { return Real(a) > Real(b); }},
      {"_operator.le",
       [](const IValue& a, const IValue& b) -> IValue { return Real(a) <= Real(b); }},
      {"_operator.lt",
       [](const IValue& a, const IValue& b) -> IValue { return Real(a) < Real(b); }},
      {"_operator.and_",
       [](const IValue& a, const IValue& b) -> IValue { return a.toBool() && b.toBool(); }},
      {"_operator.or_",
       [](const IValue& a, const IValue& b) -> IValue { return a.toBool() || b.toBool(); }},
      {"torch.sym_max",
       [](const IValue& a, const IValue& b) -> IValue { return Real(a) >= Real(b) ? a : b; }},
      {"torch.sym_min",
       [](const IValue& a, const IValue& b) -> IValue { return Real(a) <= Real(b) ? a : b; }},
  };
  return kBinaries;
}
#undef MPNANNY_NUMBERS

const std::map<std::string, Unary>& Unaries() {
  static const std::map<std::string, Unary> kUnaries = {
      {"_operator.neg",
       [](const IValue& a) -> IValue {
         return a.isInt() ? IValue(Subtract(0, a.toInt())) : IValue(-Real(a));
       }},
      {"_operator.pos", [](const IValue& a) -> IValue { return a; }},
      {"math.trunc",
       [](const IValue& a) -> IValue { return static_cast<int64_t>(std::trunc(Real(a))); }},
      {"math.floor",
       [](const IValue& a) -> IValue { return static_cast<int64_t>(std::floor(Real(a))); }},
      {"math.ceil",
       [](const IValue& a) -> IValue { return static_cast<int64_t>(std::ceil(Real(a))); }},
      {"torch.sym_float", [](const IValue& a) -> IValue { return Real(a); }},
      {"torch.sym_int", [](const IValue& a) -> IValue { return static_cast<int64_t>(Real(a)); }},
      {"torch.sym_not", [](const IValue& a) -> IValue { return !a.toBool(); }},
      {"torch._sym_sqrt", [](const IValue& a) -> IValue { return std::sqrt(Real(a)); }},
  };
  return kUnaries;
}

}  // namespace

std::optional<Structure> PythonOperator(const std::string& target, size_t arguments) {
  if (arguments == 2) {
    if (const auto it = Binaries().find(target); it != Binaries().end()) {
      return [run = it->second](Stack& stack) {
        const IValue b = std::move(stack.back());
        stack.pop_back();
        stack.back() = run(stack.back(), b);
      };
    }
  }
  if (arguments == 1) {
    if (const auto it = Unaries().find(target); it != Unaries().end()) {
      return [run = it->second](Stack& stack) { stack.back() = run(IValue(stack.back())); };
    }
  }
  return std::nullopt;
}

}  // namespace mpnanny::worker
