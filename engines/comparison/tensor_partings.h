// Where the tensors of two runs part beyond noise: layer by layer, figure by figure, on a bounded
// number of the steps at which both were sampled.
//
// Up to 24 common samples are all read; of more, groups of three successive ones, evenly
// spread, and the interval in which the first parting lies is then halved until it is one sample
// wide. Free function over plain values.
#ifndef MPNANNY_ENGINES_COMPARISON_TENSOR_PARTINGS_H_
#define MPNANNY_ENGINES_COMPARISON_TENSOR_PARTINGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engines/comparison/tensors.h"

namespace mpnanny::comparison {

// One figure of one tensor that is beyond what noise explains.
struct TensorParting {
  TensorKey key;
  int metric = 0;
  int64_t step = 0;
  double a = 0, b = 0;
  double limit = 0;   // by how much b may differ: of a for magnitudes, absolute for shares; 0: none
  double excess = 0;  // difference by limit
};

// All tensors of one kind by one figure.
struct GroupOutcome {
  int64_t kind = 0;
  int metric = 0;
  int64_t compared = 0, parted = 0;
  std::optional<TensorParting> first;  // the first of them, by step, then by its place in the step
  std::optional<TensorParting> worst;  // at its first step
};

struct TensorComparison {
  int64_t common_samples = 0, samples_read = 0, dropped = 0;
  double rounding = 0;    // relative limit of one operation
  double deviations = 0;  // limit in standard deviations of the reference's own variation
  std::optional<TensorParting> first;
  std::optional<int64_t> last_together;  // sampled step before `first` at which it was looked at
  std::vector<TensorParting> partings;   // by step and place, one a tensor; at most kPartingsKept
  int64_t parted_tensors = 0, compared_tensors = 0;
  std::vector<GroupOutcome> groups;  // by kind and metric, those with a parting first
  // At the first common sample: weights and the first module's input, within rounding? Absent: not
  // recorded, or the runs did not begin there.
  std::optional<bool> same_weights, same_input;
  int64_t only_rounding = 0;  // parameters left out: their gradients are nothing else
  int64_t excused = 0;        // non-finite gradients at steps that the scaler skipped
};
inline constexpr size_t kPartingsKept = 200;

// `at_start`: the first common sample is the first step of both. `half_ulp`: of the coarsest
// format, known only when samples were read, so it is asked of `tensors` unless that knows none.
Result<TensorComparison> CompareTensors(Tensors& tensors, const LayerPairs& layers,
                                        const std::vector<SampledStep>& samples, bool at_start,
                                        double half_ulp_if_unknown);

}  // namespace mpnanny::comparison

#endif  // MPNANNY_ENGINES_COMPARISON_TENSOR_PARTINGS_H_
