// Folds the rows of samples, one sample after the other, into series.
//
// Owned by one call; memory grows with the number of series, not of samples.
#ifndef MPNANNY_TOOLS_QUERY_STATS_COLLECTOR_H_
#define MPNANNY_TOOLS_QUERY_STATS_COLLECTOR_H_

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engines/runs/samples.h"
#include "engines/runs/shadow.h"
#include "tools/query_stats/question.h"

namespace mpnanny::query_stats {

class Collector {
 public:
  // Borrows both.
  Collector(const Question& question, const Blocks& blocks)
      : question_(question), blocks_(blocks) {}

  // The rows of one sample, or of some of its layers; call EndStep() after the last of them. Steps
  // come in ascending order.
  void Add(const std::vector<runs::TensorRow>& rows);
  void Add(const std::vector<runs::ShadowProfileRow>& rows);
  void EndStep(int64_t step);

  // All series with at least one known or non-finite point, by key.
  std::vector<Series> Take();

 private:
  // One series at the step that is being read.
  struct Pending {
    bool touched = false, nonfinite = false, known = false;
    double value = 0;        // the fold so far; if not `known`, what is not finite
    double layer_value = 0;  // of `layer_id`, the worst so far
    int64_t layer_id = -1;
  };
  struct Hash {
    size_t operator()(const SeriesKey& key) const {
      return static_cast<size_t>(key.group) * 0x9E3779B97F4A7C15U +
             static_cast<size_t>(key.kind * 8191 + key.slot);
    }
  };
  // The figure of one tensor; absent: not known.
  struct Figure {
    int64_t layer_id = 0, kind = 0, slot = 0;
    std::optional<double> value;
    bool nonfinite = false;     // the tensor holds such elements
    double nonfinite_value = 0;  // what stands for a figure that is absent then
  };
  void Add(const Figure& figure);
  SeriesKey KeyOf(const Figure& figure, int64_t block) const;
  void Fold(Pending& pending, const Figure& figure) const;

  const Question& question_;
  const Blocks& blocks_;
  std::unordered_map<SeriesKey, size_t, Hash> places_;
  std::vector<Series> series_;
  std::vector<Pending> pending_;
  std::vector<size_t> touched_;
};

}  // namespace mpnanny::query_stats

#endif  // MPNANNY_TOOLS_QUERY_STATS_COLLECTOR_H_
