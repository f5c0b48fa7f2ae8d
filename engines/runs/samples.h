// Sampled steps (tier 2): statistics of watched tensors, database and flight recorder merged, and
// the layers' names.
//
// Questions are shaped to the table's key (run, step, layer, kind): whole samples and single cells
// are seeks; nothing here scans the table.
#ifndef MPNANNY_ENGINES_RUNS_SAMPLES_H_
#define MPNANNY_ENGINES_RUNS_SAMPLES_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engines/runs/run.h"
#include "engines/runs/steps.h"

namespace mpnanny::runs {

// tensor_stats.kind
enum Kind : int64_t {
  kInput = 0,
  kActivation = 1,
  kActivationGradient = 2,
  kGradient = 3,
  kWeight = 4,
  kUpdate = 5,
  kOptimizerState = 6,
};
// "input", "activation", "activation_gradient", "gradient", "weight", "update", "optimizer_state";
// "tensor" otherwise.
std::string KindName(std::optional<int64_t> kind);

struct TensorRow {
  int64_t step = 0, layer_id = 0, kind = 0, slot = 0;
  std::optional<int64_t> dtype, numel;
  int64_t nan = 0, posinf = 0, neginf = 0, zeros = 0;
  std::optional<double> min, max, absmax, absmin, mean, std, rms, l2;
  std::optional<int64_t> below_fp16, subnormal_fp16, above_fp16, frozen;
  // Of nan, posinf, neginf and zeros those that the run does not record (bits 1, 2, 4, 8); they
  // read as 0.
  uint32_t missing_counts = 0;
  int64_t NonFinite() const { return nan + posinf + neginf; }
};

// "layer_id, kind, slot, … zeros, absmax" for a SELECT from tensor_stats: what SampleRow() reads.
// `columns`: names from min to frozen, or empty for all of them; `places` tells SampleRow() which.
std::string SampleColumns(const std::vector<std::string_view>& columns, std::vector<int>& places);
TensorRow SampleRow(const Statement& row, int64_t step, const std::vector<int>& places);

// All rows of one sampled step, by (layer, kind, slot). At most 200,000; more is DataCorrupt.
Result<std::vector<TensorRow>> ReadSample(const Source& source, int64_t step);

// Reads many cells or samples of one question: the statements are prepared once, and only the
// columns asked for are decoded.
class SampleReader {
 public:
  // `columns`: names of tensor_stats from min to frozen, or empty for all of them; the counts
  // before them (dtype to zeros) are always read. The source is borrowed.
  static Result<SampleReader> Create(const Source& source,
                                     const std::vector<std::string_view>& columns = {});

  // All rows of a sample, or those of one layer, by (layer, kind, slot). Valid until the next call.
  Result<const std::vector<TensorRow>*> Sample(int64_t step);
  Result<const std::vector<TensorRow>*> Layer(int64_t step, int64_t layer_id);
  // The first sampled step at or after this one; nullopt after the last.
  Result<std::optional<int64_t>> StepFrom(int64_t step);

 private:
  SampleReader(const Source& source, std::vector<int> columns, Statement sample, Statement layer,
               Statement step_from);
  Result<const std::vector<TensorRow>*> Collect(Statement& statement, int64_t step,
                                                std::optional<int64_t> layer);

  const Source* source_;
  std::vector<int> columns_;  // places in the list of columns
  Statement sample_, layer_, step_from_;
  std::vector<TensorRow> rows_;
};

// The counts by FP32 exponent field of one row (tensor_stats.exponents); nullopt where none were
// recorded, DataCorrupt for bytes that are none.
using Exponents = std::array<int64_t, 256>;
Result<std::optional<Exponents>> ReadExponents(const Source& source, const TensorRow& row);

// At most `most` sampled steps in the range: the last ones before its end, ascending. One seek a
// step.
Result<std::vector<int64_t>> LastSampledSteps(const Source& source, const StepRange& range,
                                              size_t most);

struct Layer {
  int64_t layer_id = 0;
  std::string name;    // raw, at most 2,000 bytes; show it through EscapeControl
  std::string type;    // module class or "parameter"; raw
  std::string source;  // "file:line" or ""; raw
  std::optional<int64_t> position, numel;
};

// Looks layers up by id and remembers those it has seen.
class Layers {
 public:
  explicit Layers(const Source& source) : source_(source) {}
  // A layer that the database lacks has the name "layer <id>".
  Result<Layer> Find(int64_t layer_id);
  Result<int64_t> Count();
  // All of the run itself (not of other ranks), by id; at most 200,000, more is DataCorrupt.
  Result<std::vector<Layer>> All() const;
  // Ids of the layers whose raw or shown name fits one of the globs. Streams the table once; those
  // of other ranks, which alerts name and samples do not, with `all_ranks`.
  Result<std::vector<int64_t>> Matching(const std::vector<std::string>& globs,
                                        bool all_ranks = false);

 private:
  Result<std::vector<int64_t>> MatchingOfTraining(const std::vector<std::string>& globs);

  const Source& source_;  // borrowed
  std::map<int64_t, Layer> known_;
};

// "exp_avg" for the slot of an optimizer's state, as the file's `meaning` says; raw; "not known" if
// it does not.
Result<std::string> StateName(const Source& source, int64_t slot);

// "float16" for a number of tensor_stats.dtype, as the file's `meaning` says; "" if it does not.
Result<std::map<int64_t, std::string>> ReadDtypeNames(const Source& source);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_SAMPLES_H_
