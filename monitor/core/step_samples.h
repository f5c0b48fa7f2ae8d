// The samples of the step in progress: figures of tensors, judged by the format that the run is
// judged by, until the step ends and they go to the file.
//
// Owns the samples and the spread of the newest full sample's gradients. Tensors are only read, in
// one pass. Used by the training thread alone; options and schedule outlive it.
#ifndef MPNANNY_MONITOR_CORE_STEP_SAMPLES_H_
#define MPNANNY_MONITOR_CORE_STEP_SAMPLES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "monitor/core/alert_growth.h"
#include "monitor/core/alert_values.h"
#include "monitor/core/gradient_spread.h"
#include "monitor/core/recorder_options.h"
#include "monitor/core/run_file.h"
#include "monitor/core/run_layers.h"
#include "monitor/core/sample_schedule.h"

namespace mpnanny {

// All figures of one tensor.
struct Measured {
  TensorStats stats;
  std::optional<ExponentHistogram> exponents = std::nullopt;  // on full samples
};

struct SampleOptions {
  double factor = 1;          // that makes the figures unscaled
  bool cast_to_fp16 = false;  // it is given to an operator that makes FP16 of it
  bool judge = true;
  bool columns = false;
  std::optional<int> producer;
  std::optional<size_t> same_as;  // its exponents are those of this sample
  std::optional<int64_t> frozen;  // of an update
};

class StepSamples {
 public:
  // What a step may keep, however long it lasts (an update written by hand never ends one): the
  // samples beyond are left out and counted in the event samples_dropped. A step of a model whose
  // layers run a few times stays far below.
  static constexpr size_t kMost = 8'192;
  static constexpr size_t kMostPerLayer = 8;  // allows a model of many layers more

  StepSamples(const RecorderOptions& options, const SampleSchedule& schedule,
              const RunLayers& layers)
      : options_(options), schedule_(schedule), layers_(layers) {}

  void BeginStep();

  bool Watches(TensorKind kind) const {
    return (options_.kinds >> static_cast<int>(kind) & 1) != 0;
  }
  // What a tensor of this kind is judged by; empty: it is not.
  std::optional<Judgement> Judge(DType dtype, TensorKind kind, bool cast_to_fp16) const {
    return JudgeFormat(options_.run.precision, dtype, kind, cast_to_fp16);
  }
  // All figures that this step's samples of a kind have, by one pass over the tensor.
  Measured Measure(const TensorView& view, TensorKind kind) const;
  // The sample's place; empty: left out.
  std::optional<size_t> Add(int64_t layer, TensorKind kind, int32_t slot, const TensorView& view,
                            const Measured& measured, const SampleOptions& how);

  const SampleRow& row(size_t place) const { return samples_[place].row; }
  // What the newest module below `container` gave; null: none was sampled. Until the next Add().
  const SampleRow* NewestActivationBelow(const std::string& container) const;

  // `plain`: nothing of the run is in half precision.
  void RaiseValues(bool plain, Alerts& out) const;
  // OVERFLOW_AHEAD. Steps that are sampled one after the other, after an ERROR, are left out.
  void RaiseGrowth(Alerts& out);
  // Hands them to the file and the ring.
  void Keep(RunFile& file);

  const GradientSpread& gradient_spread() const { return gradient_spread_; }

 private:
  struct Sample {
    SampleRow row;
    std::optional<Judgement> judged;  // empty: not judged
    Shares shares;
    std::optional<Columns> columns;
    std::optional<int> producer;
  };

  bool StoresExponents() const { return (options_.run.metrics & kExponentsMetric) != 0; }

  const RecorderOptions& options_;
  const SampleSchedule& schedule_;
  const RunLayers& layers_;
  std::vector<Sample> samples_;
  int64_t left_out_ = 0;
  GradientSpread gradient_spread_;
  OverflowAhead ahead_;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_STEP_SAMPLES_H_
