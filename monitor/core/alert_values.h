// Alerts on the values of one sampled tensor: OVERFLOW, SATURATION, UNDERFLOW, DIM_IMBALANCE.
//
// A tensor is judged by the format that it is held in or has to fit into. JudgeFormat() decides by
// which; MeasureShares() counts, with the tensor at hand, what its statistics do not tell;
// ValueConditions() decides at the end of the step, when more is known of the run. Pure functions;
// used by the training thread alone.
#ifndef MPNANNY_MONITOR_CORE_ALERT_VALUES_H_
#define MPNANNY_MONITOR_CORE_ALERT_VALUES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "monitor/core/alert_conditions.h"
#include "monitor/core/rows.h"
#include "numerics/format.h"

namespace mpnanny {

// The format that the elements of a tensor have to fit into.
struct Judgement {
  Format format = Format::kFp16;
  // It is stored in that very format: what was too small for it is gone already.
  bool held = false;
  // FP8 recipes give every tensor a scale. What a wider tensor would lose is judged at the one that
  // brings its largest element to the format's maximum.
  bool scaled = false;
  // Nothing of the run is in half precision: an overflow is INFO, the rest is silent.
  bool plain_fp32 = false;
};

// `precision`: the run's option, none for "auto"; `cast_to_fp16`: autocast makes
// FP16 of the tensor. Empty: nothing to judge it by. For "auto" an FP32 tensor is `plain_fp32`;
// whether the run is, the caller knows.
std::optional<Judgement> JudgeFormat(const Word<Precision>& precision, DType dtype, TensorKind kind,
                                     bool cast_to_fp16);

// Shares of a tensor's elements, as far as they were worth counting.
struct Shares {
  double below = 0;  // of the non-zero elements: become 0 in the judged format
  double near = 0;   // of the finite elements: above kSaturationOfMax x its maximum
};
Shares MeasureShares(const TensorView& view, const TensorStats& stats, const Judgement& judged);

// The largest and smallest maximum over the columns of an output (its last dimension), dead columns
// left out.
struct Columns {
  int64_t live = 0;
  double largest = 0, smallest = 0;
};
// Looks at 65,536 elements at most, whole rows in even spacing. Empty for what has no features in
// its last dimension: fewer than 2 or more than 3 dimensions, rows that are not contiguous, fewer
// than kImbalanceRows rows.
std::optional<Columns> MeasureColumns(const TensorView& view);
inline constexpr int64_t kImbalanceRows = 4;

struct JudgedSample {
  const SampleRow& row;
  std::string_view name;
  Judgement judged;
  Shares shares;
  std::optional<Columns> columns;
  std::optional<int> producer;  // of an overflow: 1 if the module's inputs fit
};
void ValueConditions(const JudgedSample& sample, Alerts& out);

// How a kind of tensor is called in a sentence: "output", "weight" …; and the phase in which it
// comes to be.
std::string_view KindWord(TensorKind kind);
Phase KindPhase(TensorKind kind);

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_ALERT_VALUES_H_
