// A figure over steps: its points, and what is known of all points that were looked at.
//
// Plain values of one call. Memory of a series is bounded: past a limit its points are thinned.
#ifndef MPNANNY_TOOLS_QUERY_STATS_SERIES_H_
#define MPNANNY_TOOLS_QUERY_STATS_SERIES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "engines/runs/sparkline.h"
#include "tools/query_stats/metric.h"

namespace mpnanny::query_stats {

struct Point {
  int64_t step = 0;
  double value = 0;        // NaN or infinite: nothing finite was there
  bool nonfinite = false;  // the tensor held NaN or infinite elements, or the value itself is so
  int64_t layer_id = -1;   // of several layers the one with the worst figure
};

// What a series is of: a layer, a block or everything; one kind of tensor; one slot or all.
struct SeriesKey {
  int64_t group = -1;  // layer_id, or place in Blocks::names, or -1
  int64_t kind = -1;   // -1: of the step
  int64_t slot = -1;   // -1: all slots together
  friend bool operator==(const SeriesKey& a, const SeriesKey& b) {
    return a.group == b.group && a.kind == b.kind && a.slot == b.slot;
  }
  friend bool operator<(const SeriesKey& a, const SeriesKey& b) {
    return std::tie(a.group, a.kind, a.slot) < std::tie(b.group, b.kind, b.slot);
  }
};

struct Series {
  SeriesKey key;
  std::string name;           // raw, of the layer or block; "" if it is of the step
  std::vector<Point> points;  // by step
  int64_t looked_at = 0;      // points that were read, kept or not
  int64_t not_known = 0;      // read, but the figure is NULL and nothing non-finite explains it
  std::optional<Point> worst, least, largest;  // finite; `worst` by Metric::worse
  int64_t nonfinite = 0;                       // points with non-finite elements
  std::optional<int64_t> first_nonfinite, last_nonfinite;
  std::optional<double> growth;  // see Growth()

  // Adds a point with a greater step than the last one; thins the points when there are `most`.
  void Add(const Point& point, Worse worse, size_t most);
};

// Both series' points in one, each step once (of `a` where both have it).
Series Merged(const Series& a, const Series& b, Worse worse);

// At most about `most` of the points (but at least the first and the last): the smallest and the
// largest of every stretch, and the first and last non-finite one in it. Stretches have equal
// lengths in steps, or equal numbers of points.
enum class Along { kSteps, kPoints };
std::vector<Point> Thinned(const std::vector<Point>& points, size_t most,
                           Along along = Along::kSteps);

// Median magnitude of the last eighth of the finite points over that of the first eighth; nullopt
// where there are fewer than two or the first is 0.
std::optional<double> Growth(const std::vector<Point>& points);

// At most `width` cells: of each stretch of points the largest value, NaN where something was not
// finite.
std::vector<runs::SparkCell> SparkCells(const std::vector<Point>& points, size_t width);

}  // namespace mpnanny::query_stats

#endif  // MPNANNY_TOOLS_QUERY_STATS_SERIES_H_
