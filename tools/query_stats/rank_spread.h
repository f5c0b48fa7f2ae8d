// One figure on many ranks, step by step: how far they lie apart and which of them do.
//
// Plain values; free function without state.
#ifndef MPNANNY_TOOLS_QUERY_STATS_RANK_SPREAD_H_
#define MPNANNY_TOOLS_QUERY_STATS_RANK_SPREAD_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace mpnanny::query_stats {

struct RankFigure {
  int64_t rank = 0;
  double value = 0;  // NaN or infinite: nothing finite was there
};

struct RankPoint {
  int64_t step = 0;
  std::optional<double> least, median, largest;  // of the finite ones
  int64_t ranks = 0, nonfinite = 0;
};

// A rank that stands apart from the others.
struct Outlier {
  int64_t rank = 0;
  int64_t first_step = 0;
  int64_t steps = 0;  // at which it does
  // Where it is farthest: not finite while others are, else by the others' own spread.
  int64_t step = 0;
  double value = 0, median = 0;
  double distance = 0;  // in spreads; infinite where it is not finite or the others are all equal
};

struct RankSpread {
  std::vector<RankPoint> points;  // by step
  std::vector<Outlier> outliers;  // first ones first, then the farthest
};

RankSpread SpreadOf(const std::map<int64_t, std::vector<RankFigure>>& by_step);

}  // namespace mpnanny::query_stats

#endif  // MPNANNY_TOOLS_QUERY_STATS_RANK_SPREAD_H_
