#include "tools/diagnose_run/detectors/detector.h"

namespace mpnanny::diagnose_run {

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
  return claims;
}

}  // namespace mpnanny::diagnose_run
