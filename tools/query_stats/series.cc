#include "tools/query_stats/series.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace mpnanny::query_stats {
namespace {

// Of one stretch of points, in order: the first and last non-finite one, the smallest, the largest.
void AddStretch(const std::vector<Point>& points, size_t begin, size_t end,
                std::vector<Point>& into) {
  std::optional<size_t> least, largest, first_bad, last_bad;
  for (size_t i = begin; i < end; ++i) {
    const Point& p = points[i];
    if (p.nonfinite) {
      if (!first_bad) first_bad = i;
      last_bad = i;
    }
    if (!std::isfinite(p.value)) continue;
    if (!least || p.value < points[*least].value) least = i;
    if (!largest || p.value > points[*largest].value) largest = i;
  }
  std::set<size_t> chosen;
  for (const auto& place : {least, largest, first_bad, last_bad}) {
    if (place) chosen.insert(*place);
  }
  for (const size_t place : chosen) into.push_back(points[place]);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

}  // namespace

void Series::Add(const Point& point, Worse worse, size_t most) {
  ++looked_at;
  if (point.nonfinite) {
    ++nonfinite;
    if (!first_nonfinite) first_nonfinite = point.step;
    last_nonfinite = point.step;
  }
  if (std::isfinite(point.value)) {
    if (!worst || IsWorse(worse, point.value, worst->value)) worst = point;
    if (!least || point.value < least->value) least = point;
    if (!largest || point.value > largest->value) largest = point;
  }
  points.push_back(point);
  if (points.size() >= most) points = Thinned(points, most / 2, Along::kPoints);
}

Series Merged(const Series& a, const Series& b, Worse worse) {
  Series both;
  both.key = a.key;
  both.name = a.name;
  both.not_known = a.not_known + b.not_known;
  const auto add = [&](const Point& point) { both.Add(point, worse, SIZE_MAX); };
  auto left = a.points.begin();
  for (const Point& right : b.points) {
    while (left != a.points.end() && left->step < right.step) add(*left++);
    if (left == a.points.end() || left->step != right.step) add(right);
  }
  while (left != a.points.end()) add(*left++);
  return both;
}

std::vector<Point> Thinned(const std::vector<Point>& points, size_t most, Along along) {
  if (points.size() <= std::max<size_t>(most, 2)) return points;
  // A stretch gives two points as a rule and four at most: non-finite ones are worth their room.
  const size_t stretches = std::max<size_t>(1, (most - 2) / 2);
  std::vector<Point> kept = {points.front()};
  const size_t inner = points.size() - 2;
  const auto first = static_cast<double>(points.front().step);
  const double span = static_cast<double>(points.back().step) - first;
  size_t begin = 1;
  for (size_t i = 0; i < stretches; ++i) {
    size_t end = 1 + inner * (i + 1) / stretches;
    if (along == Along::kSteps && i + 1 < stretches) {
      const double until =
          first + span * static_cast<double>(i + 1) / static_cast<double>(stretches);
      for (end = begin; end < points.size() - 1 && static_cast<double>(points[end].step) < until;) {
        ++end;
      }
    }
    AddStretch(points, begin, end, kept);
    begin = end;
  }
  kept.push_back(points.back());
  // Steps that lie unevenly leave most stretches empty.
  if (along == Along::kSteps && kept.size() < most / 2)
    return Thinned(points, most, Along::kPoints);
  return kept;
}

std::optional<double> Growth(const std::vector<Point>& points) {
  std::vector<double> values;
  for (const Point& p : points) {
    if (std::isfinite(p.value)) values.push_back(std::fabs(p.value));
  }
  if (values.size() < 2) return std::nullopt;
  const auto part = static_cast<ptrdiff_t>(std::max<size_t>(1, values.size() / 8));
  const double first = Median({values.begin(), values.begin() + part});
  const double last = Median({values.end() - part, values.end()});
  if (first == 0) return std::nullopt;
  return last / first;
}

std::vector<runs::SparkCell> SparkCells(const std::vector<Point>& points, size_t width) {
  std::vector<runs::SparkCell> cells(std::min(width, points.size()));
  for (size_t cell = 0; cell < cells.size(); ++cell) {
    bool bad = false;
    for (size_t i = points.size() * cell / cells.size();
         i < points.size() * (cell + 1) / cells.size(); ++i) {
      bad |= points[i].nonfinite;
      if (std::isfinite(points[i].value))
        cells[cell] = std::max(cells[cell].value_or(-INFINITY), points[i].value);
    }
    if (bad) cells[cell] = NAN;
  }
  return cells;
}

}  // namespace mpnanny::query_stats
