#include <algorithm>
#include <string>

#include "engines/diagnosis/detectors/detector.h"

namespace mpnanny::diagnosis {
namespace {

constexpr size_t kEnoughShadowSteps = 3;
constexpr double kNotMeasured = 0.3;  // what is left of such a claim's strength

// Whether the step compared what the claim says is lost. Files of earlier monitors do not tell, and
// their steps compared all that they saw.
bool Compares(const runs::ShadowStep& step, Claim::LostIn part) {
  if (!step.covered) return true;
  const runs::ShadowCoverage& covered = *step.covered;
  switch (part) {
    case Claim::LostIn::kNothing:
      return false;
    case Claim::LostIn::kForward:
      return !step.eager;
    case Claim::LostIn::kGradients:
      return !step.eager && covered.gradients.All();
    case Claim::LostIn::kUpdates:
      return covered.updates.All() && covered.left_out.empty();
  }
  return false;
}

// Statistics say that something may be lost to rounding; a comparison with FP64 says whether it is.
void WeighAgainstShadow(const ShadowEvidence& measured, std::vector<Claim>& claims) {
  if (!measured.findings.empty()) return;
  for (Claim& claim : claims) {
    if (claim.lost_in == Claim::LostIn::kNothing) continue;
    const auto compared = static_cast<size_t>(
        std::count_if(measured.steps.begin(), measured.steps.end(),
                      [&](const runs::ShadowStep& step) { return Compares(step, claim.lost_in); }));
    if (compared < kEnoughShadowSteps) continue;
    claim.fault = false;
    claim.strength *= kNotMeasured;
    claim.sentence += runs::Sentence(
        runs::Form(
            "But in the {0} steps that ran a second time in FP64 it cost less than is reported.",
            "但在以 FP64 再运行一遍的 {0} 步中，其影响小于报告的界限。"),
        {static_cast<int64_t>(compared)});
  }
}

}  // namespace

std::vector<Claim> RunDetectors(const Facts& facts) {
  constexpr Detector kAll[] = {
      DetectRanks,           DetectLogprobs,         DetectLeftFigures,    DetectForwardOverflow,
      DetectOriginPlace,     DetectSoftmaxOrigins,   DetectDomainOrigins,  DetectRootGradient,
      DetectOverflowOrigins, DetectNormOutputZero,   DetectRawInputs,      DetectOptimizerOrigin,
      DetectLostGradients,   DetectScalerOrder,      DetectScalerRestart,  DetectLossScale,
      DetectZeroRate,        DetectLostUpdates,      DetectPoisonedBuffer, DetectLrJump,
      DetectRecurrence,      DetectOptimizerRestart, DetectOutlierBatch,   DetectConstantInput,
      DetectDeadUnits,       DetectZeroGradients,    DetectFadingGradient, DetectAdversary,
      DetectDivergence,      DetectShortJump,        DetectMeasuredOrigin, DetectLoggedNumbers,
  };
  std::vector<Claim> claims;
  for (const Detector detect : kAll) detect(facts, claims);
  WeighAgainstShadow(facts.measured, claims);
  for (Claim& claim : claims) {
    if (claim.ground == Ground::kMeasured || !claim.fault) continue;
    claim.fault = false;
    if (!claim.open) claim.note = true;
  }
  return claims;
}

}  // namespace mpnanny::diagnosis
