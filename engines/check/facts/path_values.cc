#include "engines/check/facts/path_values.h"

#include <cmath>
#include <utility>
#include <vector>

#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

// Methods and functions that give the value of a tensor of one element, or a copy of it.
constexpr std::string_view kSame[] = {"item",  "cpu",        "cuda", "to",      "detach",
                                      "clone", "contiguous", "any",  "all",     "max",
                                      "min",   "mean",       "view", "squeeze", "reshape"};
constexpr std::string_view kConverts[] = {"float", "int", "bool", "double", "long", "byte"};

PathConstant Number(double value) { return {PathConstant::Kind::kNumber, value, "", false}; }

std::optional<PathConstant> Text(std::string_view literal) {
  // Prefixes change what it says.
  if (literal.size() < 2 || (literal[0] != '"' && literal[0] != '\'') ||
      literal.find('\\') != std::string_view::npos || literal.starts_with("\"\"\"") ||
      literal.starts_with("'''"))
    return std::nullopt;
  return PathConstant{PathConstant::Kind::kText, 0,
                      std::string(literal.substr(1, literal.size() - 2)), false};
}

std::optional<double> Compute(std::string_view op, double left, double right) {
  if (op == "+") return left + right;
  if (op == "-") return left - right;
  if (op == "*") return left * right;
  if (op == "/" && right != 0) return left / right;
  if (op == "%" && right > 0) return left - right * std::floor(left / right);
  return std::nullopt;
}

std::optional<bool> Compare(std::string_view op, const PathConstant& left,
                            const PathConstant& right) {
  const bool equal =
      left.kind == right.kind && left.number == right.number && left.text == right.text;
  if (op == "==" || op == "is") return equal;
  if (op == "!=" || op.starts_with("is not")) return !equal;
  if (left.kind != PathConstant::Kind::kNumber || right.kind != PathConstant::Kind::kNumber)
    return std::nullopt;
  if (op == "<") return left.number < right.number;
  if (op == "<=") return left.number <= right.number;
  if (op == ">") return left.number > right.number;
  if (op == ">=") return left.number >= right.number;
  return std::nullopt;
}

}  // namespace

void PathValues::Set(std::string_view variable, PathConstant value) {
  known_.insert_or_assign(std::string(variable), std::move(value));
}

void PathValues::Forget(std::string_view variable) {
  // Of x also x.y and x[0], and of x[0] also x.
  const std::string_view root = variable.substr(0, variable.find('['));
  std::erase_if(known_, [&](const auto& one) {
    const std::string_view key = one.first;
    return key == root ||
           (key.starts_with(root) && (key[root.size()] == '.' || key[root.size()] == '['));
  });
}

const PathConstant* PathValues::Of(std::string_view variable) const {
  const auto it = known_.find(variable);
  return it == known_.end() ? nullptr : &it->second;
}

std::optional<PathConstant> PathValues::Evaluate(const Bindings& bindings, NodeId expression,
                                                 int depth) const {
  const Fields& f = PythonFields();
  const Syntax& syntax = bindings.syntax();
  const NodeId id = syntax.Unwrap(expression);
  if (id == kNoNode || depth == 0) return std::nullopt;
  const auto of = [&](NodeId part) { return Evaluate(bindings, part, depth - 1); };
  switch (syntax.kind(id)) {
    case Kind::kTrue:
      return Number(1);
    case Kind::kFalse:
      return Number(0);
    case Kind::kNone:
      return PathConstant{};
    case Kind::kString:
      return Text(syntax.Text(id));
    case Kind::kInteger:
    case Kind::kFloat: {
      const auto value = bindings.Number(id);
      return value && !std::isnan(*value) ? std::optional(Number(*value)) : std::nullopt;
    }
    case Kind::kIdentifier:
    case Kind::kAttribute: {
      const PathConstant* known = known_.empty() ? nullptr : Of(bindings.names().Key(id));
      return known == nullptr ? std::nullopt : std::optional(*known);
    }
    case Kind::kAssignment:  // a = b = value
      return of(syntax.Child(id, f.right));
    case Kind::kNot: {
      const auto value = of(syntax.Child(id, f.argument));
      return value ? std::optional(Number(value->IsTrue() ? 0 : 1)) : std::nullopt;
    }
    case Kind::kUnary: {
      const auto value = of(syntax.Child(id, f.argument));
      if (!value || value->kind != PathConstant::Kind::kNumber ||
          syntax.Text(syntax.Child(id, f.operator_)) != "-")
        return std::nullopt;
      return Number(-value->number);
    }
    case Kind::kBinary: {
      const auto left = of(syntax.Child(id, f.left));
      const auto right = left ? of(syntax.Child(id, f.right)) : std::nullopt;
      if (!right || left->kind != PathConstant::Kind::kNumber ||
          right->kind != PathConstant::Kind::kNumber)
        return std::nullopt;
      const auto value =
          Compute(syntax.Text(syntax.Child(id, f.operator_)), left->number, right->number);
      return value && !std::isnan(*value) ? std::optional(Number(*value)) : std::nullopt;
    }
    case Kind::kComparison: {
      const std::vector<NodeId> operands = syntax.Children(id);
      if (operands.size() != 2) return std::nullopt;
      const auto left = of(operands[0]);
      const auto right = left ? of(operands[1]) : std::nullopt;
      if (!right) return std::nullopt;
      const auto holds = Compare(syntax.Text(syntax.Child(id, f.operators)), *left, *right);
      return holds ? std::optional(Number(*holds ? 1 : 0)) : std::nullopt;
    }
    case Kind::kCall:
      return OfCall(bindings, id, depth - 1);
    default:
      return std::nullopt;
  }
}

std::optional<PathConstant> PathValues::OfCall(const Bindings& bindings, NodeId call,
                                               int depth) const {
  const Syntax& syntax = bindings.syntax();
  const Names& names = bindings.names();
  const std::string& callee = names.Callee(call);
  const std::vector<NodeId> given = syntax.Children(syntax.Child(call, PythonFields().arguments));
  if (callee == "torch.tensor" || callee == "torch.as_tensor") {
    NodeId value = names.Argument(call, 0, "data");
    if (syntax.Is(value, Kind::kList)) {
      const std::vector<NodeId> elements = syntax.Children(value);
      if (elements.size() != 1) return std::nullopt;
      value = elements[0];
    }
    auto made = Evaluate(bindings, value, depth);
    if (!made || made->kind != PathConstant::Kind::kNumber) return std::nullopt;
    made->tensor = true;
    return made;
  }
  if (callee == "torch.zeros" || callee == "torch.ones") {
    const NodeId size = names.Argument(call, 0, "size");
    const std::string_view text = syntax.Text(size);
    const bool second = given.size() > 1 && !syntax.Is(given[1], Kind::kKeywordArgument);
    if (second || (text != "1" && text != "()" && text != "(1,)" && text != "[]" && text != "[1]"))
      return std::nullopt;
    return PathConstant{PathConstant::Kind::kNumber, callee == "torch.ones" ? 1.0 : 0.0, "", true};
  }
  if (!callee.empty()) return std::nullopt;
  if (const std::string_view method = names.Method(call); !method.empty()) {
    if (!IsOneOf(kSame, method) && !IsOneOf(kConverts, method)) return std::nullopt;
    auto value = Evaluate(bindings, names.Receiver(call), depth);
    if (!value || !value->tensor) return std::nullopt;
    if (method == "item") value->tensor = false;
    return value;
  }
  const std::string_view function = syntax.Text(syntax.Child(call, PythonFields().function));
  if ((IsOneOf(kConverts, function) || function == "abs") && given.size() == 1) {
    auto value = Evaluate(bindings, given[0], depth);
    if (!value || value->kind != PathConstant::Kind::kNumber) return std::nullopt;
    if (function == "bool") return Number(value->IsTrue() ? 1 : 0);
    if (function == "int") return Number(std::trunc(value->number));
    return Number(function == "abs" ? std::abs(value->number) : value->number);
  }
  if ((function != "max" && function != "min") || given.size() < 2) return std::nullopt;
  std::optional<PathConstant> best;
  for (const NodeId one : given) {
    const auto value = Evaluate(bindings, one, depth);
    if (!value || value->kind != PathConstant::Kind::kNumber) return std::nullopt;
    if (!best || (function == "max") == (value->number > best->number))
      best = Number(value->number);
  }
  return best;
}

}  // namespace mpnanny::check
