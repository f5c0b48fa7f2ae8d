// A gradient norm that grows all along while the loss stays where it is.
#include <cmath>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

constexpr double kGrownTimes = 10;    // as large at the end as at first
constexpr double kMostlyRises = 0.9;  // of the stretches: nearly all
constexpr size_t kLeastStretches = 10;
constexpr double kFlatLoss = 0.05;  // of the loss

}  // namespace

void DetectGrowingNorm(const Facts& facts, std::vector<Claim>& claims) {
  const summary::Summary& s = facts.summary;
  if (facts.onset || !s.loss_start || !s.loss_end || FindClaim(claims, "diverged")) return;
  if (std::fabs(*s.loss_end - *s.loss_start) > kFlatLoss * std::fabs(*s.loss_start)) return;
  double first = 0, last = 0;
  size_t seen = 0, rises = 0;
  for (const summary::Stretch& stretch : s.course) {
    if (stretch.norms == 0) continue;
    const double mean = stretch.norm_sum / static_cast<double>(stretch.norms);
    if (seen++ == 0) {
      first = mean;
    } else {
      rises += mean > last;
    }
    last = mean;
  }
  if (seen < kLeastStretches || !(first > 0) || last < kGrownTimes * first ||
      static_cast<double>(rises) < kMostlyRises * static_cast<double>(seen - 1)) {
    return;
  }
  Claim claim;
  claim.id = "norm-grows";
  claim.sentence = {Form("The gradient norm grows all along, from about {0} to about {1}, while "
                         "the loss stays at about {2}.",
                         "梯度范数一直增长，从约 {0} 到约 {1}，而损失停留在约 {2}。"),
                    {runs::Number(first, 3), runs::Number(last, 3), runs::Number(s.loss_end)}};
  claim.strength = 0.5;
  claim.open = true;
  claim.title = Form("The gradient norm grows all along and the loss does not move",
                     "梯度范数一直增长，而损失没有变化");
  claim.fix = Form(
      "Look whether gradients are set to zero once for each update (zero_grad), and whether they "
      "are divided by a scale that the loss was multiplied by.",
      "检查每次更新是否恰好清零一次梯度（zero_grad），"
      "以及梯度是否除以了损失所乘的缩放。");
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnosis
