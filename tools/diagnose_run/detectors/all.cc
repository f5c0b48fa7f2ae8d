#include <string>

#include "tools/diagnose_run/detectors/detector.h"

namespace mpnanny::diagnose_run {
namespace {

constexpr size_t kEnoughShadowSteps = 3;
constexpr double kNotMeasured = 0.3;  // what is left of such a claim's strength

// Statistics say that something may be lost to rounding; a comparison with FP64 says whether it is.
void WeighAgainstShadow(const ShadowEvidence& measured, std::vector<Claim>& claims) {
  if (measured.shadow_steps.size() < kEnoughShadowSteps || !measured.findings.empty()) return;
  for (Claim& claim : claims) {
    if (!claim.rounding) continue;
    claim.fault = false;
    claim.strength *= kNotMeasured;
    claim.sentence += " But nothing was lost in the " +
                      std::to_string(measured.shadow_steps.size()) +
                      " steps that ran a second time in FP64.";
  }
}

}  // namespace

std::vector<Claim> RunDetectors(const Facts& facts) {
  constexpr Detector kAll[] = {
      DetectForwardOverflow, DetectOriginPlace,      DetectSoftmaxOrigins,   DetectDomainOrigins,
      DetectLossBackward,    DetectRootGradient,     DetectOverflowOrigins,  DetectNormOutputZero,
      DetectRawInputs,       DetectGradientOverflow, DetectOptimizerOrigin,  DetectLostGradients,
      DetectScalerProtocol,  DetectScalerRestart,    DetectLossScale,        DetectSkippedSteps,
      DetectLostUpdates,     DetectAccumulation,     DetectPoisonedBuffer,   DetectGrowingLogits,
      DetectLrJump,          DetectRecurrence,       DetectOptimizerRestart, DetectOutlierBatch,
      DetectDeadUnits,       DetectFadingGradient,   DetectAdversary,        DetectDivergence,
      DetectShortJump,       DetectWideRange};
  std::vector<Claim> claims;
  for (const Detector detect : kAll) detect(facts, claims);
  WeighAgainstShadow(facts.measured, claims);
  return claims;
}

}  // namespace mpnanny::diagnose_run
