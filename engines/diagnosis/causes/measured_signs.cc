#include "engines/diagnosis/causes/measured_signs.h"

#include <algorithm>
#include <cmath>

#include "engines/runs/operator_words.h"

namespace mpnanny::diagnosis {
namespace {

using Signs = std::vector<std::string_view>;

// Each says what kind of operator went wrong, and how.
constexpr std::string_view kOperatorSigns[] = {
    "matmul-overflow",  "add-overflow",         "sum-overflow",           "square-overflow",
    "exp-overflow",     "cast-overflow",        "mask-constant-overflow", "masked-row-softmax",
    "log-of-zero",      "domain-error",         "zero-division",          "half-zero-division",
    "norm-output-zero", "root-gradient-at-zero"};

bool IsAny(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool TakesLog(std::string_view op) {
  return IsAny(op, {"log", "log2", "log10", "log1p", "xlogy", "logit"});
}
bool Divides(std::string_view op) { return IsAny(op, {"div", "reciprocal", "rsqrt", "addcdiv"}); }
bool HasBounds(std::string_view op) {
  return IsAny(op, {"sqrt", "pow", "acos", "asin", "acosh", "atanh", "erfinv", "lgamma"});
}

// A zero in 16 bits that is none in the reference.
bool Underflowed(const runs::ShadowFinding& finding) {
  return std::any_of(
      finding.operands.begin(), finding.operands.end(),
      [](const runs::ShadowOperand& each) { return each.held == 0 && each.reference != 0; });
}

// Not finite in the format, finite in FP64.
Signs OfRange(const runs::ShadowFinding& finding, std::string_view op) {
  if (Divides(op)) {
    return Underflowed(finding) ? Signs{"half-zero-division"}
                                : Signs{"half-zero-division", "zero-division"};
  }
  if (TakesLog(op)) return {"log-of-zero"};
  if (IsAny(op, {"exp", "exp2", "expm1", "sinh", "cosh"})) return {"exp-overflow"};
  if (IsAny(op, {"mm", "bmm", "matmul", "baddbmm", "addmm", "dot", "mv", "addmv"})) {
    return {"matmul-overflow"};
  }
  if (IsAny(op, {"sum", "mean", "cumsum", "nansum", "prod", "var", "std", "var_mean", "mse_loss",
                 "logsumexp", "linalg_vector_norm", "norm"})) {
    return {"sum-overflow", "square-overflow"};
  }
  if (IsAny(op, {"pow", "square", "mul"})) return {"square-overflow"};
  if (IsAny(op, {"add", "sub", "rsub", "addcmul"})) return {"add-overflow"};
  if (IsAny(op, {"to_copy", "copy"})) return {"cast-overflow", "mask-constant-overflow"};
  return {};
}

// Not finite in FP64 either.
Signs OfUndefined(const runs::ShadowFinding& finding, std::string_view op) {
  if (finding.was_bad_before) return {};
  if (TakesLog(op)) return {"log-of-zero", "domain-error"};
  if (Divides(op)) return {"zero-division", "domain-error"};
  if (HasBounds(op)) return {"domain-error"};
  if (IsAny(op, {"softmax", "log_softmax"})) return {"masked-row-softmax"};
  return {};
}

}  // namespace

Signs SignsOf(const runs::ShadowFinding& finding) {
  const std::string_view op = runs::OperatorBaseName(finding.op);
  Signs signs = finding.kind == FindingKind::kRange       ? OfRange(finding, op)
                : finding.kind == FindingKind::kUndefined ? OfUndefined(finding, op)
                                                          : Signs();
  // Derivatives of roots and logarithms are divisions and products.
  if (!signs.empty() && finding.phase == Phase::kBackward &&
      (Divides(op) || IsAny(op, {"mul", "pow"}))) {
    for (const std::string_view of : {"root-gradient-at-zero", "log-of-zero"}) signs.push_back(of);
  }
  return signs;
}

bool IsNoOperatorsMistake(const runs::ShadowFinding& finding) {
  if (finding.kind != FindingKind::kUndefined) return false;
  const runs::OperatorKind kind = runs::KindOfOperator(finding.op);
  return finding.was_bad_before || kind == runs::OperatorKind::kConstant ||
         kind == runs::OperatorKind::kMoves;
}

bool IsOfAnotherOperator(const cases::Case& entry, const runs::ShadowFinding& finding) {
  // Only where the operands show it: by an operator's name alone a case is not put aside.
  const bool shown = finding.kind == FindingKind::kRange && Underflowed(finding);
  if (!shown && !IsNoOperatorsMistake(finding)) return false;
  const Signs signs = SignsOf(finding);
  bool of_operator = false;
  for (const cases::Signal& signal : entry.signals) {
    if (signal.kind != cases::Signal::Kind::kSign) continue;
    if (std::find(signs.begin(), signs.end(), signal.name) != signs.end()) return false;
    of_operator = of_operator || std::find(std::begin(kOperatorSigns), std::end(kOperatorSigns),
                                           signal.name) != std::end(kOperatorSigns);
  }
  return of_operator;
}

}  // namespace mpnanny::diagnosis
