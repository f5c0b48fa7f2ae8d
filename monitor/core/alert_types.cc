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

std::vector<AlertType> MakeTypes() {
  return {
      {"NAN", "ERROR", "one NaN element"},
      {"INF", "ERROR", "one infinite element"},
      {"LOSS_NAN", "ERROR", "a loss that is NaN or infinite"},
      {"OVERFLOW", "ERROR",
       "one finite element beyond the judged format's maximum (FP16: rounds to infinity from "
       "65520)"},
      {"SATURATION", "WARNING",
       Text("> %g %% of elements above %g x the judged format's maximum", 100 * kSaturationShare,
            kSaturationOfMax)},
      {"OVERFLOW_AHEAD", "WARNING",
       Text("FP16 values above %g x its maximum whose clear growth over at least %d samples reaches "
            "the maximum within as many steps again",
            kAheadOfMax, static_cast<int>(kLeastGrowthPoints))},
      {"UNDERFLOW", "WARNING",
       Text("> %g %% of non-zero elements round to zero in the judged format; > %g %% is said "
            "louder",
            100 * kUnderflowShare, 100 * kUnderflowLoudShare)},
      {"GRAD_EXPLOSION", "ERROR",
       Text("unscaled gradient absmax > %g, or global norm > %g x its median and > %g x every norm "
            "of the first %d steps, after those",
            kExplosionAbsmax, kExplosionRatio, kExplosionOfStart, kWarmupSteps)},
      {"GRAD_VANISH", "WARNING",
       Text("unscaled gradient absmax of the whole model < %g (not 0), or global norm < %g x its "
            "median after %d steps",
            kVanishAbsmax, kVanishRatio, kWarmupSteps)},
      {"LOSS_SCALE_LOW", "WARNING",
       Text("loss scale < max(%g, initial / %g), with at most %g as the initial scale",
            kLowScaleFloor, kLowScaleDivisor, kUsualInitialScale)},
      {"LOSS_SCALE_DECLINE", "WARNING",
       Text("%d falls of the loss scale without a rise", kDeclineFalls)},
      {"LOSS_SCALE_COLLAPSE", "ERROR",
       Text("loss scale <= %g for %d steps", kCollapseScale, kCollapseSteps)},
      {"STEP_SKIPPED", "WARNING",
       Text("more than %d skipped steps in %d, beside one for each growth_interval", kSkipAllowed,
            kSkipWindow)},
      {"DEAD_LAYER", "WARNING",
       Text("unscaled gradient absmax of a layer < %g in %d samples in a row, while others have > "
            "%g",
            kDeadAbsmax, kDeadSamples, kVanishAbsmax)},
      {"ABSORPTION", "WARNING",
       Text("> %g %% of the non-zero elements of an addend under half an ulp of the sum",
            100 * kAbsorbedShare)},
      {"DIM_IMBALANCE", "WARNING",
       Text("largest / smallest maximum of an output's dimensions > %g", kImbalanceRatio)},
      {"STALE_UPDATE", "WARNING",
       Text("> %g %% of a tensor's updates under half an ulp of the weight in its own dtype, %d "
            "samples in a row",
            100 * kStaleShare, kStaleSamples)},
      {"LOSS_SPIKE", "WARNING",
       Text("loss > median + %g MAD after %d steps, and at least %g %% above the median",
            kOutlierMads, kWarmupSteps, 100 * kSpikeOfMedian)},
      // The shadow step decides (monitor/python/mpnanny/shadow), and each finding's severity is its
      // own.
      {"SHADOW_RANGE", "ERROR", "one element that is not finite and is in the FP64 reference"},
      {"SHADOW_UNDEFINED", "ERROR",
       "one element that is not finite, in the FP64 reference neither, from finite inputs"},
      {"SHADOW_AMPLIFIED", "WARNING",
       "an operator's error against the FP64 reference is several times that of its inputs, and "
       "reaches a result"},
      {"SHADOW_LOST_CHANGE", "WARNING",
       "most elements of a state that change in the FP64 reference stay as they were"},
      {"SHADOW_FLUSHED", "WARNING",
       "many elements that are not 0 in the FP64 reference, nor small beside the rest, are 0"},
      {"SHADOW_INTEGERS", "WARNING",
       "whole numbers of the FP64 reference are other numbers as they are held"},
      {"SHADOW_CLIPPED", "WARNING",
       "a cast cuts values off at the format's maximum that are larger in the FP64 reference"},
      {"SHADOW_DIVERGED", "ERROR",
       "values that left a format's range had grown by more than 1000x at that operator since the "
       "first shadow step, and the largest weight by more than 30x"},
      {"PROTOCOL", "WARNING",
       "a relation between gradients, parameters and states that a training needs did not hold in "
       "every step that was looked at, at least 3"},
  };
}

}  // namespace

std::span<const AlertType> AlertTypes() {
  static const std::vector<AlertType> types = MakeTypes();
  return types;
}

const AlertType& FindAlertType(std::string_view type) {
  for (const AlertType& row : AlertTypes()) {
    if (row.type == type) return row;
  }
  return AlertTypes().front();
}

}  // namespace mpnanny
