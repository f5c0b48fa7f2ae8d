#include <algorithm>
#include <limits>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

// exp(-17) is the last that FP16 holds, exp(-103) the last of FP32.
constexpr double kDifferenceHalf = 17, kDifferenceWide = 103;

// From the loss on there is no clean one.
bool AllAreBad(const runs::AlertDetail& detail) {
  return detail.gradients && detail.bad_gradients == detail.gradients;
}

}  // namespace

// A finite loss whose derivative is not: -Inf that was multiplied by 0 or not chosen, but whose
// gradient is 0 times Inf. Only where no operator was traced.
void DetectLossBackward(const Facts& facts, std::vector<Claim>& claims) {
  if (!facts.onset || facts.onset->phase != Phase::kBackward || !facts.origins.empty()) return;
  if (IsRuledOut(facts, "log-of-zero")) return;
  if (!facts.onset->is_nan || !AllAreBad(facts.onset->detail)) return;
  const Series* output = LastOutput(facts);
  if (!output) return;
  const double reach = output->last().absmax.value_or(0);
  const double gap = UsesHalf(facts) ? kDifferenceHalf : kDifferenceWide;
  if (2 * reach < gap) return;
  Claim claim;
  claim.id = "log-of-zero";
  claim.sentence = {Form("Every gradient is NaN, that of the last layer too, while the loss is "
                         "finite: the derivative of the loss itself is NaN. The output of {0} "
                         "reached {1} before, far enough apart for probabilities that underflow to "
                         "0; the derivative of their logarithm is 1 / 0.",
                         "损失是有限的，而所有梯度都是 NaN，包括最后一层："
                         "损失自身的导数为 NaN。此前 {0} 的输出达到 {1}，"
                         "差距足以使概率下溢为 0；其对数的导数为 1 / 0。"),
                    {runs::Name(output->layer), runs::Number(reach)}};
  claim.strength = 0.7;
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnosis
