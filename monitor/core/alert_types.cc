#include "monitor/core/alert_types.h"

#include <cstdio>
#include <vector>

#include "numerics/growth.h"

namespace mpnanny {
namespace {

template <typename... Args>
std::string Text(const char* format, Args... args) {
  char text[256];
  std::snprintf(text, sizeof text, format, args...);
  return text;
}

std::vector<AlertDefinition> MakeDefinitions() {
  return {
      {AlertType::kNan, Severity::kError, "one NaN element"},
      {AlertType::kInf, Severity::kError, "one infinite element"},
      {AlertType::kLossNan, Severity::kError, "a loss that is NaN or infinite"},
      {AlertType::kOverflow, Severity::kError,
       "one finite element beyond the judged format's maximum (FP16: rounds to infinity from "
       "65520)"},
      {AlertType::kSaturation, Severity::kWarning,
       Text("> %g %% of elements above %g x the judged format's maximum", 100 * kSaturationShare,
            kSaturationOfMax)},
      {AlertType::kOverflowAhead, Severity::kWarning,
       Text(
           "FP16 values above %g x its maximum whose clear growth over at least %d samples reaches "
           "the maximum within as many steps again",
           kAheadOfMax, static_cast<int>(kLeastGrowthPoints))},
      {AlertType::kUnderflow, Severity::kWarning,
       Text("> %g %% of non-zero elements round to zero in the judged format; > %g %% is said "
            "louder",
            100 * kUnderflowShare, 100 * kUnderflowLoudShare)},
      {AlertType::kGradExplosion, Severity::kError,
       Text("unscaled gradient absmax > %g, or global norm > %g x its median and > %g x every norm "
            "of the first %d steps, after those",
            kExplosionAbsmax, kExplosionRatio, kExplosionOfStart, kWarmupSteps)},
      {AlertType::kGradVanish, Severity::kWarning,
       Text("unscaled gradient absmax of the whole model < %g (not 0), or that of a layer < %g and "
            "< %g x the largest; or global norm < %g x its median after %d steps",
            kVanishAbsmax, kVanishAbsmax, kVanishRatio, kVanishRatio, kWarmupSteps)},
      {AlertType::kLossScaleLow, Severity::kWarning,
       Text("loss scale < max(%g, initial / %g), with at most %g as the initial scale",
            kLowScaleFloor, kLowScaleDivisor, kUsualInitialScale)},
      {AlertType::kLossScaleDecline, Severity::kWarning,
       Text("%d falls of the loss scale without a rise", kDeclineFalls)},
      {AlertType::kLossScaleCollapse, Severity::kError,
       Text("loss scale <= %g for %d steps", kCollapseScale, kCollapseSteps)},
      {AlertType::kStepSkipped, Severity::kWarning,
       Text("more than %d skipped steps in %d, beside one for each growth_interval", kSkipAllowed,
            kSkipWindow)},
      {AlertType::kDeadLayer, Severity::kWarning,
       Text("unscaled gradient absmax of a layer < %g in %d samples in a row, while others have > "
            "%g",
            kDeadAbsmax, kDeadSamples, kVanishAbsmax)},
      {AlertType::kAbsorption, Severity::kWarning,
       Text("> %g %% of the non-zero elements of an addend under half an ulp of the sum",
            100 * kAbsorbedShare)},
      {AlertType::kDimImbalance, Severity::kWarning,
       Text("largest / smallest maximum of an output's dimensions > %g", kImbalanceRatio)},
      {AlertType::kStaleUpdate, Severity::kWarning,
       Text("> %g %% of a tensor's updates under half an ulp of the weight in its own dtype, %d "
            "samples in a row",
            100 * kStaleShare, kStaleSamples)},
      {AlertType::kLossSpike, Severity::kWarning,
       Text("loss > median + %g MAD after %d steps, and at least %g %% above the median",
            kOutlierMads, kWarmupSteps, 100 * kSpikeOfMedian)},
      {AlertType::kLogprobMismatch, Severity::kWarning,
       Text("log-probabilities of trainer and rollout engine: k3 > %g or > %g %% of the tokens "
            "beyond e^+-0.5; k3 > %g, > %g %% or a value that is not finite is an error",
            kMismatchK3, 100 * kMismatchBeyond, kMismatchK3Broken, 100 * kMismatchBeyondBroken)},
      // The shadow step decides (monitor/python/mpnanny/shadow), and each finding's severity is its
      // own.
      {AlertType::kShadowRange, Severity::kError,
       "one element that is not finite and is in the FP64 reference"},
      {AlertType::kShadowUndefined, Severity::kError,
       "one element that is not finite, in the FP64 reference neither, from finite inputs"},
      {AlertType::kShadowAmplified, Severity::kWarning,
       "an operator's error against the FP64 reference is several times that of its inputs, and "
       "reaches a result"},
      {AlertType::kShadowLostChange, Severity::kWarning,
       "most elements of a state that change in the FP64 reference stay as they were"},
      {AlertType::kShadowFlushed, Severity::kWarning,
       "many elements that are not 0 in the FP64 reference, nor small beside the rest, are 0"},
      {AlertType::kShadowIntegers, Severity::kWarning,
       "whole numbers of the FP64 reference are other numbers as they are held"},
      {AlertType::kShadowClipped, Severity::kWarning,
       "a cast cuts values off at the format's maximum that are larger in the FP64 reference"},
      {AlertType::kShadowDiverged, Severity::kError,
       "values that left a format's range had grown by more than 1000x at that operator since the "
       "first shadow step, and the largest weight by more than 30x"},
      {AlertType::kProtocol, Severity::kWarning,
       "a relation between gradients, parameters and states that a training needs did not hold in "
       "every step that was looked at, at least 3"},
  };
}

}  // namespace

std::span<const AlertDefinition> AlertDefinitions() {
  static const std::vector<AlertDefinition> definitions = MakeDefinitions();
  return definitions;
}

}  // namespace mpnanny
