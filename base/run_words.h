// The words of a run's database: what the monitor writes and what the engines read.
//
// Enums with their names, as schema/*.sql has them.
#ifndef MPNANNY_BASE_RUN_WORDS_H_
#define MPNANNY_BASE_RUN_WORDS_H_

#include "base/word.h"

namespace mpnanny {

// When in a step something happened.
enum class Phase { kData, kForward, kLoss, kBackward, kOptimizer, kState };
template <>
struct Vocabulary<Phase> {
  static constexpr const char* kNames[] = {"data",     "forward",   "loss",
                                           "backward", "optimizer", "state"};
};

// How bad an alert or a finding is, worst first.
enum class Severity { kError, kWarning, kInfo };
template <>
struct Vocabulary<Severity> {
  static constexpr const char* kNames[] = {"ERROR", "WARNING", "INFO"};
};

// What an alert is of: monitor/alerts/<TYPE>.md tells each.
enum class AlertType {
  kNan,
  kInf,
  kLossNan,
  kOverflow,
  kSaturation,
  kOverflowAhead,
  kUnderflow,
  kGradExplosion,
  kGradVanish,
  kLossScaleLow,
  kLossScaleDecline,
  kLossScaleCollapse,
  kStepSkipped,
  kDeadLayer,
  kAbsorption,
  kDimImbalance,
  kStaleUpdate,
  kLossSpike,
  kLogprobMismatch,
  kShadowRange,
  kShadowUndefined,
  kShadowAmplified,
  kShadowLostChange,
  kShadowFlushed,
  kShadowIntegers,
  kShadowClipped,
  kShadowDiverged,
  kProtocol
};
template <>
struct Vocabulary<AlertType> {
  static constexpr const char* kNames[] = {"NAN",
                                           "INF",
                                           "LOSS_NAN",
                                           "OVERFLOW",
                                           "SATURATION",
                                           "OVERFLOW_AHEAD",
                                           "UNDERFLOW",
                                           "GRAD_EXPLOSION",
                                           "GRAD_VANISH",
                                           "LOSS_SCALE_LOW",
                                           "LOSS_SCALE_DECLINE",
                                           "LOSS_SCALE_COLLAPSE",
                                           "STEP_SKIPPED",
                                           "DEAD_LAYER",
                                           "ABSORPTION",
                                           "DIM_IMBALANCE",
                                           "STALE_UPDATE",
                                           "LOSS_SPIKE",
                                           "LOGPROB_MISMATCH",
                                           "SHADOW_RANGE",
                                           "SHADOW_UNDEFINED",
                                           "SHADOW_AMPLIFIED",
                                           "SHADOW_LOST_CHANGE",
                                           "SHADOW_FLUSHED",
                                           "SHADOW_INTEGERS",
                                           "SHADOW_CLIPPED",
                                           "SHADOW_DIVERGED",
                                           "PROTOCOL"};
};

// What a shadow step found (docs/shadow.md). Those up to kClipped are errors of values, worst
// first; the others are relations between gradients, parameters and states that did not hold.
enum class FindingKind {
  kDiverged,
  kRange,
  kUndefined,
  kIntegers,
  kLostChange,
  kAmplified,
  kFlushed,
  kClipped,
  kNoGradient,
  kNotUpdated,
  kNotZeroed,
  kNotRestored,
  kMovedOnSkip,
  kScaleDependent,
  kLoadUndone,
  kPartialCopy,
  kDroppedGradient,
  kEmptyStep,
  kMovedWeights,
  kStateNarrowed,
  kRecast,
  kNonfiniteKept,
  kStandsStill,
  kSavedOtherwise,
  kStateOfAnother,
  kNotReproduced
};
template <>
struct Vocabulary<FindingKind> {
  static constexpr const char* kNames[] = {
      "diverged",         "range",           "undefined",     "integers",
      "lost_change",      "amplified",       "flushed",       "clipped",
      "no_gradient",      "not_updated",     "not_zeroed",    "not_restored",
      "moved_on_skip",    "scale_dependent", "load_undone",   "partial_copy",
      "dropped_gradient", "empty_step",      "moved_weights", "state_narrowed",
      "recast",           "nonfinite_kept",  "stands_still",  "saved_otherwise",
      "state_of_another", "not_reproduced"};
};

// What a wider type makes of a finding: it cures it, it does not, nobody tried.
enum class Proof { kProven, kExcluded, kNotTested };
template <>
struct Vocabulary<Proof> {
  static constexpr const char* kNames[] = {"proven", "excluded", "not_tested"};
};

// What the values of a run are judged by.
enum class Precision { kFp32, kFp16, kBf16, kFp8, kMixed };
template <>
struct Vocabulary<Precision> {
  static constexpr const char* kNames[] = {"fp32", "fp16", "bf16", "fp8", "mixed"};
};

// What brought a value that is not finite into a step. Unwritten: memory that nobody wrote.
enum class CarrierKind { kData, kState, kUnwritten };
template <>
struct Vocabulary<CarrierKind> {
  static constexpr const char* kNames[] = {"data", "state", "unwritten"};
};

// How a run ended.
enum class EndReason { kClosed, kException, kSignal };
template <>
struct Vocabulary<EndReason> {
  static constexpr const char* kNames[] = {"closed", "exception", "signal"};
};

}  // namespace mpnanny

#endif  // MPNANNY_BASE_RUN_WORDS_H_
