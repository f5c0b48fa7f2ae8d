// The bounds of the alerts: the monitor raises by them, and a record that was made without it is
// judged by the same.
//
// Constant data.
#ifndef MPNANNY_NUMERICS_ALERT_BOUNDS_H_
#define MPNANNY_NUMERICS_ALERT_BOUNDS_H_

namespace mpnanny {

// Every bound that a condition uses. The sources of the numbers are on the alerts' pages.
inline constexpr double kSaturationShare =
    0.01;  // of elements above kSaturationOfMax x the format's maximum
inline constexpr double kSaturationOfMax = 0.9;
inline constexpr double kAheadOfMax = 1e-3;  // below it a forecast of the maximum is far-fetched
inline constexpr double kUnderflowShare = 0.01;  // of the non-zero elements
inline constexpr double kUnderflowLoudShare = 0.10;
inline constexpr double kExplosionAbsmax = 1e4;  // unscaled
inline constexpr double kExplosionRatio = 100;   // x the median norm
inline constexpr double kExplosionOfStart = 10;  // x the largest norm of the warm-up
inline constexpr double kVanishAbsmax = 1e-8;    // unscaled, not 0
inline constexpr double kVanishRatio = 1e-3;     // x the median norm
inline constexpr double kLowScaleFloor = 128;
inline constexpr double kLowScaleDivisor = 100;  // of the initial scale
// torch's default; a start above it is a search, not a level that the run needs.
inline constexpr double kUsualInitialScale = 65536;
inline constexpr int kDeclineFalls = 5;
inline constexpr double kCollapseScale = 1;
inline constexpr int kCollapseSteps = 20;
inline constexpr int kSkipWindow = 100;       // steps over which skips are counted
inline constexpr int kSkipAllowed = 2;        // in a window, beside one for each growth_interval
inline constexpr int kWarmupSteps = 100;      // before conditions relative to the run's own history
inline constexpr double kOutlierMads = 10;    // of the run's own figures, beyond their median
inline constexpr double kDeadAbsmax = 1e-10;  // unscaled gradient of a layer
inline constexpr int kDeadSamples = 3;        // in a row
inline constexpr double kAbsorbedShare = 0.10;  // of an addend's non-zero elements
// An addend that is larger, beside the other, cannot lose that much by rounding.
inline constexpr double kAddendRatio = 0.125;   // of the two RMS
inline constexpr double kImbalanceRatio = 1e4;  // of two dimensions' maxima
inline constexpr double kStaleShare = 0.5;      // of the elements of a tensor that were to move
inline constexpr int kStaleSamples = 3;         // in a row
// A loss spike rises at least by these shares of the median and of the level that the run started
// from: near zero, and where the loss hardly varies, MAD alone is no measure.
inline constexpr double kSpikeOfMedian = 0.2;
inline constexpr double kSpikeOfStart = 0.05;
inline constexpr int kSpikeStartLosses =
    8;                                      // a small model may have converged by the warm-up's end
inline constexpr double kSpikeHabit = 1.5;  // x the rise of the third largest loss of the window
// Log-probabilities of a trainer and its rollout engine (numerics/logprob_mismatch.h). k3 between
// engines in practice is 0.001 to 0.002; from 0.01 on updates are off-policy by more than the
// mismatch that importance sampling is meant to mend (verl's documentation of rollout correction).
inline constexpr double kMismatchK3 = 0.01, kMismatchK3Broken = 0.1;
// Shares of tokens beyond e^±0.5. The ratio there is outside of every usual clip range (0.2), so
// these tokens' gradients are dropped or distorted.
inline constexpr double kMismatchBeyond = 0.005, kMismatchBeyondBroken = 0.05;

}  // namespace mpnanny

#endif  // MPNANNY_NUMERICS_ALERT_BOUNDS_H_
