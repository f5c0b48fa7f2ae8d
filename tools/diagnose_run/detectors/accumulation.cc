#include <algorithm>

#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

// Two losses of one step (a GAN's) are no accumulation; from four addends on BF16 begins to lose.
constexpr int64_t kPasses = 4;

}  // namespace

void DetectAccumulation(const Facts& facts, std::vector<Claim>& claims) {
  if (facts.protocol.backwards < kPasses) return;
  const auto gradient = std::find_if(
      facts.profile.series.begin(), facts.profile.series.end(), [](const Series& series) {
        return series.kind == runs::kGradient && IsSixteen(series.dtype);
      });
  if (gradient == facts.profile.series.end()) return;
  Claim claim;
  claim.id = "half-accumulation";
  claim.sentence = std::to_string(facts.protocol.backwards) +
                   " backward passes a step are added up in " + gradient->dtype + " (" +
                   runs::Name(gradient->layer) + "): the running sum outgrows what is added, and " +
                   (gradient->dtype == "bfloat16" ? "BF16 keeps 8" : "FP16 keeps 11") +
                   " significant bits.";
  // The loss of a pass is divided by their number, so late passes differ from the sum by about it.
  claim.strength = facts.protocol.backwards >= 16 ? 1 : 0.8;
  claim.fault = true;
  claim.lost_in = Claim::LostIn::kPasses;
  claim.place = FaultPlace{
      gradient->first().step, "backward", "", "", "", "gradients added up in " + gradient->dtype};
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnose_run
