// Logarithms, roots and divisions of what they are not made for.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

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

void Add(const char* id, Ground ground, Sentence sentence, double strength,
         std::vector<Claim>& claims) {
  Claim claim;
  claim.id = id;
  claim.ground = ground;
  claim.sentence = std::move(sentence);
  claim.strength = strength;
  claims.push_back(std::move(claim));
}

void JudgeOperator(const NanOrigin& origin, std::vector<Claim>& claims) {
  const Sentence name = OperatorName(origin);
  const std::string& op = origin.backward ? origin.of : origin.op;
  const Sentence largest =
      origin.largest ? Sentence(Form(", up to {0}", "（最大 {0}）"), {runs::Number(origin.largest)})
                     : Sentence();
  const bool probabilities = !origin.largest || *origin.largest <= kProbability;
  if (IsLog(op) && (origin.backward || origin.neginf || origin.posinf) &&
      (origin.backward || probabilities)) {
    Add("log-of-zero", Ground::kMeasured,
        {Form("{0} met a 0 among finite values{1}{2}: probabilities that had underflowed. "
              "log_softmax and the losses on logits take the logarithm before anything can "
              "underflow.",
              "{0} 在有限的数值{1}中遇到了 0{2}：概率已经下溢。"
              "log_softmax 和直接作用于 logits 的损失在任何下溢之前就取对数。"),
         {name, largest,
          origin.dtype.empty() ? Sentence()
                               : Sentence(Form(" in {0}", "（{0}）"), {origin.dtype})}},
        1, claims);
  } else if (!origin.backward && (IsLog(op) || (HasDomain(op) && origin.nan))) {
    Add("domain-error", Ground::kMeasured,
        {Form("{0} got finite values that it is not defined for{1}: a negative number or zero. No "
              "precision helps.",
              "{0} 得到了它没有定义的有限值{1}：负数或零。"
              "任何精度都没有帮助。"),
         {name, largest}},
        1, claims);
  } else if (!origin.backward && origin.nan && IsSpread(op)) {
    Claim claim;
    claim.id = "traced-producer";
    claim.ground = Ground::kMeasured;
    claim.sentence = {Form("{0} gave NaN, and what went in is finite{1}: the spread of a single "
                           "value is 0 / 0, in any format.",
                           "{0} 的结果为 NaN，而输入是有限的{1}：单个值的离散程度是 0 / 0"
                           "，在任何格式中都是如此。"),
                      {name, largest}};
    claim.strength = 0.9;
    claim.title = {Form("{0} gives NaN of finite values: it has a single value to take a spread of "
                        "(not precision)",
                        "{0} 由有限的数值得出 NaN：它只有一个值可用来计算离散程度（不是"
                        "精度问题）"),
                   {name}};
    claim.fix = Form(
        "Leave out groups with fewer than two values, or take the spread without Bessel's "
        "correction (correction=0), which is 0 for one value, and add a small number to it before "
        "it divides.",
        "去掉少于两个值的组，或不做贝塞尔校正（correction=0，"
        "单个值时结果为 0），并在用作除数之前加一个小数。");
    claims.push_back(std::move(claim));
  } else if (!origin.backward && IsDivision(op)) {
    const bool half =
        IsHalf(origin.dtype) && (!origin.largest || std::fabs(*origin.largest) < kSmallInHalf);
    if (half) {
      Add("half-zero-division", Ground::kMeasured,
          {Form("{0} divided by 0 in float16, with values{1}: squares and eps of that size "
                "underflow in FP16 (under 6e-8 is 0). In FP32 the divisor lives.",
                "{0} 在 float16 中除以 0，数值{1}："
                "这样大小的平方和 eps 在 FP16 中下溢（6e-8 以下为 0）。"
                "在 FP32 中除数不为零。"),
           {name, largest}},
          1, claims);
    } else {
      Add("zero-division", Ground::kMeasured,
          {Form("{0} divided by 0: what went in is finite{1}.", "{0} 除以 0：其输入是有限的{1}。"),
           {name, largest}},
          1, claims);
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
  if (onset.phase == Phase::kForward && onset.is_nan && !InNarrowRange(facts) &&
      (own_code || NameHas(onset.layer_type, {"pool", "mean"})) &&
      !FindClaim(claims, "masked-row-softmax") && !FindDivergence(facts).norm &&
      !IsRuledOut(facts, "domain-error")) {
    Add("domain-error", Ground::kRecognised,
        {Form("{0} made NaN of finite inputs in its own code, in a format that does not overflow "
              "there: 0 / 0, or a logarithm or root outside of its domain. FP32 does so too.",
              "{0} 在自己的代码中由有限的输入得出 NaN，"
              "所用格式在那里不会溢出：0 / 0，或对数、根号超出定义域。"
              "FP32 也是如此。"),
         {runs::Name(onset.layer)}},
        0.8, claims);
  }
  if (onset.phase != Phase::kLoss) return;
  // The operator could not be traced; how far the logits lie apart tells which of the two it is.
  const Series* output = LastOutput(facts);
  const double reach = output ? output->last().absmax.value_or(0) : 0;
  const double gap = UsesHalf(facts) ? kGapHalf : kGapWide;
  if (output && 2 * reach > gap && !IsRuledOut(facts, "log-of-zero")) {
    Add("log-of-zero", Ground::kRecognised,
        {Form("Before it the output of {0} reached {1}: logits so far apart make probabilities "
              "that underflow to 0, whose logarithm is -Inf.",
              "在此之前，{0} 的输出达到 {1}：logits 相距如此之大，"
              "概率会下溢为 0，其对数为 -Inf。"),
         {runs::Name(output->layer), runs::Number(reach)}},
        0.6, claims);
    return;
  }
  if (IsRuledOut(facts, "domain-error")) return;
  Sentence unnamed = Form(
      "Every watched module gave finite values and the loss is not finite: labels, weights or "
      "constants that enter it were not looked at and may carry the value, or the loss takes a "
      "logarithm or root outside of its domain, or divides by zero.",
      "所有被监视的模块都给出有限值，而损失非有限：进入损失的标签、"
      "权重或常量没有被检查，可能带有该值；或者损失在定义域之外取对数"
      "或根号，或除以零。");
  if (output) {
    unnamed +=
        Sentence(Form("The model's output reached only {0} before, which no softmax underflows at.",
                      "此前模型的输出最大只到 {0}，任何 softmax 都不会因此下溢。"),
                 {runs::Number(reach)});
  }
  Add("domain-error", Ground::kRecognised, std::move(unnamed), 0.5, claims);
}

}  // namespace mpnanny::diagnosis
