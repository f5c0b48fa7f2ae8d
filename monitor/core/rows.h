// What the monitor records, as plain structs: one for each table of schema/*.sql.
//
// NaN and Inf in a double mean exactly that; "not known" is an empty optional. The writer turns
// both into NULL, as the schema asks, because `flags` and the counts tell them apart.
#ifndef MPNANNY_MONITOR_CORE_ROWS_H_
#define MPNANNY_MONITOR_CORE_ROWS_H_

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/run_words.h"
#include "numerics/rank_figures.h"
#include "numerics/tensor_stats.h"

namespace mpnanny {

// step.flags
enum StepFlag : uint32_t {
  kLossNan = 1,
  kLossInf = 2,
  kGradientNonFinite = 4,
  kStepSkipped = 8,
  kScaleFell = 16,
  kScaleRose = 32,
  kSampled = 64,
  kDense = 128,
  kRecovered = 256,
};

// tensor_stats.kind
enum class TensorKind : int32_t {
  kInput = 0,
  kActivation = 1,
  kActivationGradient = 2,
  kGradient = 3,
  kWeight = 4,
  kUpdate = 5,
  kOptimizerState = 6,
};

// Now, as all times in the file are given.
double UnixSeconds();
// Since some moment long ago, by a clock that nobody sets: for waiting. While a system clock that
// was set back caught up, nothing would happen.
double SteadySeconds();
inline constexpr int kKinds = 7;
inline constexpr uint32_t kAllKinds = (1u << kKinds) - 1;

// Figures of tensor_stats that a run may leave out; bits of RunRow::metrics in this order. The
// others (dtype, numel) are always there.
inline constexpr std::string_view kMetrics[] = {
    "nan",        "posinf",         "neginf",     "zeros",  "min",      "max",
    "absmax",     "absmin",         "mean",       "std",    "rms",      "l2",
    "below_fp16", "subnormal_fp16", "above_fp16", "frozen", "exponents"};
inline constexpr uint32_t kAllMetrics = (1u << std::size(kMetrics)) - 1;
inline constexpr uint32_t kExponentsMetric = 1u << (std::size(kMetrics) - 1);

struct RunRow {
  std::string name;
  int64_t rank = 0, world_size = 1;
  double started_at = 0;      // Unix seconds
  Word<Precision> precision;  // none: not known yet
  int64_t trace_interval = 100;
  std::string environment;         // JSON
  uint32_t metrics = kAllMetrics;  // of tensor_stats; what is missing is NULL
};

struct LayerRow {
  int64_t id = 0;  // within the run, counted from 1; the database's layer_id is this plus an offset
  std::string name, type, source;
  std::optional<int64_t> position;
  std::optional<int64_t> numel;
};

struct StepRow {
  int64_t step = 0;
  double at = 0;
  std::optional<double> duration, loss, lr, loss_scale, grad_norm;
  std::optional<int64_t> peak_memory;
  uint32_t flags = 0;
  int64_t first_nonfinite_layer = -1;  // LayerRow::id; only the ring has a place for it
  int64_t nonfinite_layers = 0;
};

struct SampleRow {
  int64_t step = 0;
  int64_t layer = 0;
  TensorKind kind = TensorKind::kActivation;
  int32_t slot = 0;
  DType dtype = DType::kUnknown;
  TensorStats stats;
  std::optional<int64_t> frozen;  // of an update
  std::string exponents;          // varint counts; empty: NULL
};

struct AlertRow {
  int64_t id = 0;  // within the run, counted from 1
  int64_t step = 0;
  Word<Phase> phase;  // none: NULL
  std::optional<int64_t> layer;
  std::optional<TensorKind> kind;
  AlertType type = AlertType::kNan;
  Severity severity = Severity::kError;
  std::optional<double> value, threshold;
  std::optional<int> producer;
  int64_t repeats = 1;
  int64_t last_step = 0;
  std::string message;
  std::string detail;              // JSON object; empty: NULL
  std::optional<int64_t> finding;  // ShadowFindingRow::id: `detail` gets its id in the file
  bool explained = false;          // the message tells the operator; not a column
};

struct EventRow {
  std::optional<int64_t> step;
  double at = 0;
  std::string type, detail;  // detail: JSON or empty
};

// A step in which every operator ran a second time in FP64.
struct ShadowStepRow {
  int64_t step = 0;
  std::string why;  // as the catalogue has it; empty: NULL
  std::optional<double> seconds, plain_seconds;
  std::optional<int64_t> operators, compared, restarted, memory;
  std::string detail;  // JSON or empty
};

// What shadow steps found at one place: kind, operator, line, phase and module.
struct ShadowFindingRow {
  int64_t id = 0;                   // within the run, counted from 1
  int64_t step = 0, last_step = 0;  // the first; the newest
  int64_t repeats = 1;              // shadow steps in which it was seen
  Word<FindingKind> kind;
  Word<Severity> severity;
  Word<Phase> phase;  // none: NULL
  std::optional<int64_t> layer;
  std::string op, source, dtype, shape;  // op: "aten.sub.Tensor"; the others empty: NULL
  std::optional<double> share, magnitude, error_in, error_out;
  Word<Proof> proof;
  std::string reach, cure, detail;  // JSON or empty
};

// One layer in one shadow step: its error, and what other formats would make of its output.
struct ShadowProfileRow {
  int64_t step = 0, layer = 0, phase = 0;  // phase: 0 forward, 1 backward
  std::optional<int64_t> dtype, operators;
  std::optional<double> error, amplification, absmax, rms;
  std::optional<double> fp16, bf16, e4m3, e5m2, fp16_overflow, fp16_underflow;
};

// What ranks compare of one tensor in one step.
struct RankFigureRow {
  int64_t step = 0, layer = 0, what = 0;  // what: as rank_figures.what
  std::string holders;                    // "0-3"; empty: NULL
  int64_t first = 0;
  RankFigures figures;
};

// One call of torch.distributed. Ids of layers are LayerRow::id.
struct CollectiveRow {
  int64_t step = 0, sequence = 0;
  std::string operation, reduction, ranks, source, phase;  // all but the first may be empty: NULL
  std::optional<int64_t> layer;
  bool gradient = false;
  RankFigures in, out;
  std::optional<double> value_in, value_out, kept;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_ROWS_H_
