#include "engines/diagnosis/facts/left_figures.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include "engines/runs/figure_sense.h"

namespace mpnanny::diagnosis {
namespace {

using How = LeftFigure::How;
using Points = runs::FigureSeries;

constexpr size_t kFewestEvaluations = 5, kFewestPoints = 20;
// By so much above its least at the end, or below its best all through the last quarter.
constexpr double kAway = 0.1;
// A loss that is next to 0, as that of GRPO, moves by more than a tenth and says nothing.
constexpr double kLeastRise = 0.02;
// What is left of an entropy or a length.
constexpr double kCollapsedTo = 0.02;

// What of its kind would be worse.
std::optional<How> WorseIs(const std::string& name) {
  switch (runs::SenseOf(name)) {
    case runs::Sense::kEvaluated:
      // "valid_loss_1" is one of several parts, and what is evaluated is their sum.
      return !name.empty() && std::isdigit(static_cast<unsigned char>(name.back()))
                 ? std::nullopt
                 : std::optional(How::kRose);
    case runs::Sense::kScore:
      return How::kFell;
    case runs::Sense::kEntropy:
    case runs::Sense::kLength:
      return How::kCollapsed;
    default:
      return std::nullopt;
  }
}

double QuantileOf(const Points& points, size_t end, double share) {
  std::vector<double> values;
  for (size_t i = 0; i < end; ++i) values.push_back(points[i].second);
  const auto at = static_cast<size_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(at), values.end());
  return values[at];
}

// The step from which on every value lies beyond; nothing where that is later than the point
// `latest`.
template <typename Beyond>
std::optional<int64_t> StaysFrom(const Points& points, size_t latest, Beyond beyond) {
  size_t first = points.size();
  while (first > 0 && beyond(points[first - 1].second)) --first;
  if (first > latest) return std::nullopt;
  return points[first].first;
}

std::optional<LeftFigure> LeftBy(const runs::NamedSeries& series, How how) {
  Points points;
  for (const auto& point : series.values) {
    if (std::isfinite(point.second)) points.push_back(point);
  }
  const size_t fewest = how == How::kRose ? kFewestEvaluations : kFewestPoints;
  if (points.size() < fewest) return std::nullopt;
  const size_t early = points.size() * 3 / 4;
  LeftFigure left;
  left.how = how;
  left.name = series.name;
  left.is_length = runs::SenseOf(series.name) == runs::Sense::kLength;
  left.last = points.back().second;
  left.at_last.step = points.back().first;
  // Single values may be thrown out: the level that a tenth of the values reached.
  left.best = how == How::kRose   ? QuantileOf(points, early, 0)
              : how == How::kFell ? QuantileOf(points, early, 0.9)
                                  : QuantileOf(points, 3, 0.5);
  const double size = std::fabs(left.best);
  if (left.best <= 0) return std::nullopt;
  const auto beyond = [&](double value) {
    switch (how) {
      case How::kRose:
        return value > left.best * (1 + kAway) && value > left.best + kLeastRise;
      case How::kFell:
        return value < left.best - kAway * size;
      default:
        return value <= kCollapsedTo * left.best;
    }
  };
  // Evaluations are few: the last three.
  const size_t latest = how == How::kRose ? points.size() - 3 : early;
  const auto from = StaysFrom(points, latest, beyond);
  if (!from) return std::nullopt;
  left.from.step = *from;
  for (const auto& [step, value] : points) {
    const bool reached = how == How::kRose ? value <= left.best : value >= left.best;
    if (reached) {
      left.at_best.step = step;
      break;
    }
  }
  return left;
}

double Distance(const LeftFigure& left) {
  return std::fabs(left.last - left.best) / std::max(std::fabs(left.best), 1e-12);
}

}  // namespace

runs::Sentence PlaceText(const FigurePlace& place) {
  return place.line > 0 ? runs::Sentence(runs::Form("line {0}", "第 {0} 行"), {place.line})
                        : runs::Sentence(runs::Form("step {0}", "第 {0} 步"), {place.step});
}

std::vector<LeftFigure> FindLeftFigures(std::span<const runs::NamedSeries> figures) {
  std::vector<LeftFigure> found;
  for (const runs::NamedSeries& series : figures) {
    const auto how = WorseIs(series.name);
    auto left = how ? LeftBy(series, *how) : std::nullopt;
    if (!left) continue;
    const auto same = std::find_if(found.begin(), found.end(),
                                   [&](const LeftFigure& each) { return each.how == left->how; });
    if (same == found.end()) {
      found.push_back(std::move(*left));
    } else if (Distance(*left) > Distance(*same)) {
      *same = std::move(*left);
    }
  }
  return found;
}

}  // namespace mpnanny::diagnosis
