// Logarithms, roots and divisions of what they are not made for.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

// exp(-17) is the last that FP16 holds (5.96e-8), exp(-103) the last of FP32 (1.4e-45): two logits
// that lie further apart make a probability of 0.
constexpr double kGapHalf = 17, kGapWide = 103;
// A probability is at most 1; rounding puts it a little above.
constexpr double kProbability = 1.01;
// In FP16 the square of 2.4e-4 is 0, and eps up to 3e-8 as well.
constexpr double kSmallInHalf = 0.05;

bool IsLog(const std::string& op) {
  return op == "log" || op == "log2" || op == "log10" || op == "log1p" || op == "xlogy" ||
         op == "logit" || op.starts_with("Log");
}
bool IsDivision(const std::string& op) {
  return op == "div" || op == "div_" || op == "reciprocal" || op == "rsqrt" ||
         op == "true_divide" || op == "addcdiv";
}
bool IsSpread(const std::string& op) {
  return op == "std" || op == "var" || op == "std_mean" || op == "var_mean";
}
bool HasDomain(const std::string& op) {
  return op == "sqrt" || op == "pow" || op == "acos" || op == "asin" || op == "acosh" ||
         op == "atanh" || op == "erfinv" || op == "rsqrt" || op == "lgamma";
}

void Add(const char* id, std::string sentence, double strength, std::vector<Claim>& claims) {
  Claim claim;
  claim.id = id;
  claim.sentence = std::move(sentence);
  claim.strength = strength;
  claims.push_back(std::move(claim));
}

void JudgeOperator(const NanOrigin& origin, std::vector<Claim>& claims) {
  const std::string name = OperatorName(origin);
  const std::string& op = origin.backward ? origin.of : origin.op;
  const std::string largest = origin.largest ? ", up to " + runs::Number(origin.largest) : "";
  const bool probabilities = !origin.largest || *origin.largest <= kProbability;
  if (IsLog(op) && (origin.backward || origin.neginf || origin.posinf) &&
      (origin.backward || probabilities)) {
    Add("log-of-zero",
        name + " met a 0 among finite values" + largest +
            (origin.dtype.empty() ? "" : " in " + origin.dtype) +
            ": probabilities that had underflowed. log_softmax and the losses on logits take the "
            "logarithm before anything can underflow.",
        1, claims);
  } else if (!origin.backward && (IsLog(op) || (HasDomain(op) && origin.nan))) {
    Add("domain-error",
        name + " got finite values that it is not defined for" + largest +
            ": a negative number or zero. No precision helps.",
        1, claims);
  } else if (!origin.backward && origin.nan && IsSpread(op)) {
    Claim claim;
    claim.id = "traced-producer";
    claim.sentence = name + " gave NaN, and what went in is finite" + largest +
                     ": the spread of a single value is 0 / 0, in any format.";
    claim.strength = 0.9;
    claim.title = name + " gives NaN of finite values: it has a single value to take a spread of "
                         "(not precision)";
    claim.fix =
        "Leave out groups with fewer than two values, or take the spread without Bessel's "
        "correction (correction=0), which is 0 for one value, and add a small number to it before "
        "it divides.";
    claims.push_back(std::move(claim));
  } else if (!origin.backward && IsDivision(op)) {
    const bool half =
        IsHalf(origin.dtype) && (!origin.largest || std::fabs(*origin.largest) < kSmallInHalf);
    if (half) {
      Add("half-zero-division",
          name + " divided by 0 in float16, with values" + largest +
              ": squares and eps of that size underflow in FP16 (under 6e-8 is 0). In FP32 the "
              "divisor lives.",
          1, claims);
    } else {
      Add("zero-division", name + " divided by 0: what went in is finite" + largest + ".", 1,
          claims);
    }
  }
}

}  // namespace

void DetectDomainOrigins(const Facts& facts, std::vector<Claim>& claims) {
  if (!facts.onset) return;
  const Onset& onset = *facts.onset;
  if (!facts.origins.empty()) {
    const NanOrigin& origin = facts.origins.front();
    if (origin.inputs == NanOrigin::Inputs::kFinite) JudgeOperator(origin, claims);
    return;
  }
  if (onset.place != Onset::Place::kProducer) return;
  const bool own_code = onset.detail.where == runs::Where::kOwnCode;
  if (onset.phase == "forward" && onset.is_nan && !InNarrowRange(facts) &&
      (own_code || NameHas(onset.layer_type, {"pool", "mean"})) &&
      !FindClaim(claims, "masked-row-softmax") && !FindDivergence(facts).norm &&
      !IsRuledOut(facts, "domain-error")) {
    Add("domain-error",
        runs::Name(onset.layer) +
            " made NaN of finite inputs in its own code, in a format that "
            "does not overflow there: 0 / 0, or a logarithm or root outside of its domain. FP32 "
            "does so too.",
        0.8, claims);
  }
  if (onset.phase != "loss") return;
  // The operator could not be traced; how far the logits lie apart tells which of the two it is.
  const Series* output = LastOutput(facts);
  const double reach = output ? output->last().absmax.value_or(0) : 0;
  const double gap = UsesHalf(facts) ? kGapHalf : kGapWide;
  if (output && 2 * reach > gap && !IsRuledOut(facts, "log-of-zero")) {
    Add("log-of-zero",
        "Before it the output of " + runs::Name(output->layer) + " reached " + runs::Number(reach) +
            ": logits so far apart make probabilities that underflow to 0, "
            "whose logarithm is -Inf.",
        0.6, claims);
    return;
  }
  if (IsRuledOut(facts, "domain-error")) return;
  const std::string size = output ? " The model's output reached only " + runs::Number(reach) +
                                        " before, which no softmax underflows at."
                                  : "";
  Add("domain-error",
      "Every watched module gave finite values and the loss is not finite: labels, weights or "
      "constants that enter it were not looked at and may carry the value, or the loss takes a "
      "logarithm or root outside of its domain, or divides by zero." +
          size,
      0.5, claims);
}

}  // namespace mpnanny::diagnose_run
