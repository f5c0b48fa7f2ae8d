#include <algorithm>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

bool IsRoot(const std::string& op) {
  return op.find("norm") != std::string::npos || op.find("Norm") != std::string::npos ||
         op.find("sqrt") != std::string::npos || op.find("Sqrt") != std::string::npos ||
         op.find("cdist") != std::string::npos || op.find("Cdist") != std::string::npos ||
         op == "pow" || op == "std" || op.starts_with("Std") || op.starts_with("Pow");
}

bool IsNormalisationOperator(const std::string& op) {
  return op.find("layer_norm") != std::string::npos || op.find("batch_norm") != std::string::npos ||
         op.find("group_norm") != std::string::npos;
}

}  // namespace

void DetectRootGradient(const Facts& facts, std::vector<Claim>& claims) {
  if (!facts.onset || facts.onset->phase != Phase::kBackward || FindClaim(claims, "log-of-zero"))
    return;
  Claim claim;
  claim.id = "root-gradient-at-zero";
  if (!facts.origins.empty()) {
    const NanOrigin& origin = facts.origins.front();
    if (!origin.backward || origin.inputs == NanOrigin::Inputs::kInfinite || !IsRoot(origin.of) ||
        IsNormalisationOperator(origin.of)) {
      return;
    }
    claim.sentence = {Form("The gradient became non-finite in {0}, whose forward pass was finite: "
                           "the derivative of a root or norm is 1 / (2 root), and of a vector of "
                           "zeros that is infinite; times 0 it is NaN.",
                           "梯度在{0}中变为非有限，而其前向传播是有限的："
                           "根号或范数的导数为 1 / (2 root)，对零向量为无穷大；"
                           "再乘以 0 就是 NaN。"),
                      {OperatorName(origin)}};
    claim.ground = Ground::kMeasured;
    claim.strength = 1;
    claims.push_back(std::move(claim));
    return;
  }
  if (IsRuledOut(facts, "root-gradient-at-zero")) return;
  // Not traced. NaN (no Inf) out of a finite forward pass, in formats whose range a gradient does
  // not leave, is a derivative that does not exist; roots and norms at zero are by far the most.
  if (!facts.onset->is_nan || IsScaled(facts) || InNarrowRange(facts) ||
      FindDivergence(facts).norm) {
    return;
  }
  claim.sentence = Form(
      "Gradients are NaN while forward pass and loss are finite, in a format that gradients do not "
      "overflow: a derivative that does not exist, as that of a norm or square root at zero.",
      "前向传播和损失是有限的，而梯度为 NaN，所用格式梯度不会溢出："
      "导数不存在，例如范数或平方根在零处的导数。");
  claim.strength = 0.6;
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnosis
