// A gradient norm that grows all along while the loss stays where it is.
#include <cmath>

#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

constexpr double kGrownTimes = 10;    // as large at the end as at first
constexpr double kMostlyRises = 0.9;  // of the stretches: nearly all
constexpr size_t kLeastStretches = 10;
constexpr double kFlatLoss = 0.05;  // of the loss

}  // namespace

void DetectGrowingNorm(const Facts& facts, std::vector<Claim>& claims) {
  const run_summary::Summary& s = facts.summary;
  if (facts.onset || !s.loss_start || !s.loss_end || FindClaim(claims, "diverged")) return;
  if (std::fabs(*s.loss_end - *s.loss_start) > kFlatLoss * std::fabs(*s.loss_start)) return;
  double first = 0, last = 0;
  size_t seen = 0, rises = 0;
  for (const run_summary::Stretch& stretch : s.course) {
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
  claim.sentence = "The gradient norm grows all along, from about " + runs::Number(first, 3) +
                   " to about " + runs::Number(last, 3) + ", while the loss stays at about " +
                   runs::Number(s.loss_end) + ".";
  claim.strength = 0.5;
  claim.open = true;
  claim.title = "The gradient norm grows all along and the loss does not move";
  claim.fix =
      "Look whether gradients are set to zero once for each update (zero_grad), and whether they "
      "are "
      "divided by a scale that the loss was multiplied by.";
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnose_run
