#include "tools/query_stats/rank_spread.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace mpnanny::query_stats {
namespace {

// Ranks have different data and different shards: who is apart is told by how far the others are
// from each other. 1.4826 times the median distance from the median is the standard deviation of a
// normal distribution; ten of those are no accident among thousands.
constexpr double kSpreads = 10, kMadToDeviation = 1.4826;
// Where most ranks hold the same (a replicated tensor), what rounding leaves is no difference.
constexpr double kSameShare = 1e-6;
constexpr size_t kLeastRanks = 4;  // of fewer none is the odd one

double MedianOf(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

void NoteOutlier(std::map<int64_t, Outlier>& outliers, int64_t step, const RankFigure& figure,
                 double median, double distance) {
  const auto [place, fresh] = outliers.try_emplace(figure.rank);
  Outlier& outlier = place->second;
  if (fresh) {
    outlier.rank = figure.rank;
    outlier.first_step = step;
  }
  ++outlier.steps;
  if (!fresh && distance <= outlier.distance) return;
  outlier.step = step;
  outlier.value = figure.value;
  outlier.median = median;
  outlier.distance = distance;
}

}  // namespace

RankSpread SpreadOf(const std::map<int64_t, std::vector<RankFigure>>& by_step) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  RankSpread spread;
  std::map<int64_t, Outlier> outliers;
  for (const auto& [step, figures] : by_step) {
    RankPoint point{.step = step, .ranks = static_cast<int64_t>(figures.size())};
    std::vector<double> finite;
    for (const RankFigure& figure : figures) {
      if (std::isfinite(figure.value)) finite.push_back(figure.value);
    }
    point.nonfinite = point.ranks - static_cast<int64_t>(finite.size());
    if (!finite.empty()) {
      const auto [least, largest] = std::minmax_element(finite.begin(), finite.end());
      point.least = *least;
      point.largest = *largest;
      point.median = MedianOf(finite);
    }
    spread.points.push_back(point);
    if (finite.size() * 2 <= figures.size() || figures.size() < kLeastRanks) continue;
    const double median = *point.median;
    std::vector<double> distances;
    for (const double value : finite) distances.push_back(std::fabs(value - median));
    const double unit = kMadToDeviation * MedianOf(distances);
    for (const RankFigure& figure : figures) {
      const double distance = std::fabs(figure.value - median);
      if (!std::isfinite(figure.value)) {
        NoteOutlier(outliers, step, figure, median, kInfinite);
      } else if (unit > 0 ? distance > kSpreads * unit
                          : distance > kSameShare * std::fabs(median)) {
        NoteOutlier(outliers, step, figure, median, unit > 0 ? distance / unit : kInfinite);
      }
    }
  }
  for (auto& [rank, outlier] : outliers) spread.outliers.push_back(outlier);
  std::stable_sort(
      spread.outliers.begin(), spread.outliers.end(), [](const Outlier& a, const Outlier& b) {
        return std::tuple(a.first_step, -a.distance) < std::tuple(b.first_step, -b.distance);
      });
  return spread;
}

}  // namespace mpnanny::query_stats
