// One figure of one tensor over the samples that were read, with what noise explains of it.
//
// Pure functions on plain values; docs/compare_runs.md tells the method.
#ifndef MPNANNY_ENGINES_COMPARISON_TENSOR_SERIES_H_
#define MPNANNY_ENGINES_COMPARISON_TENSOR_SERIES_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "engines/comparison/tensors.h"

namespace mpnanny::comparison {

inline constexpr size_t kReadAll = 24;      // common samples up to which all are read
inline constexpr size_t kGroupSamples = 3;  // successive ones that are read together, of more

// The samples that were read: all common ones, or groups of successive ones.
struct Read {
  std::vector<size_t> index;   // into the common samples, ascending
  std::vector<Sample> sample;  // one for each
  // Sample i does not follow sample i - 1.
  bool Breaks(size_t i) const { return i == 0 || index[i] != index[i - 1] + 1; }
};
std::vector<size_t> ChooseSamples(size_t count);

struct Series {
  TensorKey key;
  int64_t numel = 0;
  std::vector<double> a, apart;  // compared figures and their difference; NaN where one is missing
  std::vector<double> own;       // limit from rounding and from the reference's variation
  std::vector<double> unit;      // `own`, and what another draw of as many elements would add
};

// Fills `own` and `unit`: `rounding` is the limit by rounding, in the units of `a`; `deviations`
// how many standard deviations noise may reach.
void FillLimits(Series& series, int metric, const Read& read, double rounding, double deviations);

// Parameters whose gradient is, at most samples and in both runs, smaller than the rounding of
// another gradient of the same module (`relative`): a bias before a norm, whose gradient would be
// zero without rounding. The optimizer follows what is left, so its values are chance.
std::set<uint32_t> OnlyRounding(const Read& read, const LayerPairs& layers, double relative);

// How far the tensors of a group moved in the direction `sign` at a sample, each in its own units.
std::vector<double> Moves(const std::vector<Series>& group, size_t sample, int sign);

// How far noise reaches, as tensors that moved in one direction tell it for those that moved in the
// other: thrice their 90th percentile, as one in ten may be a fault itself. Between two runs that
// do not start from the same weights every tensor has its own level: twice the largest as well.
double Reach(std::vector<double> moves, bool same_start);

}  // namespace mpnanny::comparison

#endif  // MPNANNY_ENGINES_COMPARISON_TENSOR_SERIES_H_
