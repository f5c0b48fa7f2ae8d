// The sampled tensors of two runs, aligned by layer name, at a bounded number of common steps.
//
// A Tensors belongs to one call on one thread; what it holds depends on the number of tensors in a
// sample and on kMostRead, not on the length of the runs.
#ifndef MPNANNY_ENGINES_COMPARISON_TENSORS_H_
#define MPNANNY_ENGINES_COMPARISON_TENSORS_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "engines/comparison/course.h"
#include "engines/comparison/layer_pairs.h"
#include "engines/runs/run.h"
#include "engines/runs/samples.h"
#include "numerics/format.h"

namespace mpnanny::comparison {

enum Metric { kAbsmax, kRms, kStd, kZeros, kBelowFp16, kFrozen, kNonFinite, kMetrics };
const char* MetricName(int metric);  // "absmax", "zero share", …
inline bool IsShare(int metric) { return metric >= kZeros && metric <= kFrozen; }
using Figures = std::array<double, kMetrics>;  // NaN: not known

struct TensorKey {
  uint32_t layer = 0;  // index into LayerPairs::common
  int64_t kind = 0, slot = 0;
  auto operator<=>(const TensorKey&) const = default;
};

// Both runs' figures of one tensor at one step; `numel` of the smaller.
struct Pair {
  Figures a, b;
  int64_t numel = 0;
  bool in_a = false, in_b = false;
};
struct Sample {
  SampledStep step;
  std::vector<std::pair<TensorKey, Pair>> tensors;  // by key
  const Pair* Find(const TensorKey& key) const;
};

class Tensors {
 public:
  Tensors(const runs::Source& a, const runs::Source& b, const LayerPairs& layers)
      : layers_(layers), a_{a, layers.index_a, {}, {}, {}}, b_{b, layers.index_b, {}, {}, {}} {}
  // Tensors of both runs at a step: activations, their gradients, gradients, weights, updates, and
  // what the first module is given.
  Result<Sample> Read(const SampledStep& step);
  int64_t samples_read() const { return samples_read_; }
  int64_t dropped() const { return dropped_; }  // tensors of a sample beyond what is held
  // Coarsest of the formats that have been read; absent: no dtype that is known.
  std::optional<Format> coarsest() const { return coarsest_; }

 private:
  struct Side {
    const runs::Source& source;  // borrowed
    const std::unordered_map<int64_t, uint32_t>& index;
    std::optional<runs::SampleReader> reader;
    std::optional<std::map<int64_t, std::string>> dtypes;
    std::set<int64_t> seen;  // dtypes
  };
  Result<void> Add(Side& side, int64_t step, bool is_a, Sample& sample);
  void NoteFormat(Side& side, int64_t dtype);

  const LayerPairs& layers_;  // borrowed
  Side a_, b_;
  std::optional<Format> coarsest_;
  int64_t samples_read_ = 0, dropped_ = 0;
};

}  // namespace mpnanny::comparison

#endif  // MPNANNY_ENGINES_COMPARISON_TENSORS_H_
