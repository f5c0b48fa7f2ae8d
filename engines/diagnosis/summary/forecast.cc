#include "engines/diagnosis/summary/forecast.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/layer_word.h"
#include "engines/diagnosis/summary/summary.h"
#include "engines/runs/samples.h"
#include "engines/runs/shadow_text.h"
#include "engines/runs/show.h"
#include "numerics/format.h"

namespace mpnanny::summary {
namespace {

using runs::Number;

constexpr size_t kSamplesRead = 24;
constexpr size_t kLeastStretches = 8;

// `mean` and `squares` give a stretch's mean and mean square, nullopt where it has none.
template <typename M>
std::optional<Trend> TrendOf(const std::vector<Stretch>& course, M moments) {
  struct Point {
    double step, mean, variance;
  };
  std::vector<Point> points;
  for (const Stretch& each : course) {
    if (const auto found = moments(each)) {
      points.push_back({static_cast<double>(each.first_step), found->first, found->second});
    }
  }
  if (points.size() < kLeastStretches) return std::nullopt;
  points.erase(points.begin(), points.begin() + static_cast<std::ptrdiff_t>(points.size() / 2));
  const auto n = static_cast<double>(points.size());
  double x = 0, y = 0, within = 0;
  for (const Point& each : points) {
    x += each.step / n;
    y += each.mean / n;
    within += each.variance / n;
  }
  double xx = 0, xy = 0, between = 0;
  for (const Point& each : points) {
    xx += (each.step - x) * (each.step - x);
    xy += (each.step - x) * (each.mean - y);
  }
  if (!(xx > 0) || y == 0) return std::nullopt;
  const double slope = xy / xx;
  for (const Point& each : points) {
    const double off = each.mean - y - slope * (each.step - x);
    between += off * off / n;
  }
  return Trend{100 * slope / std::fabs(y), std::sqrt(between + within) / std::fabs(y)};
}

std::optional<std::pair<double, double>> Moments(double sum, double squares, int64_t count) {
  if (count == 0) return std::nullopt;
  const double mean = sum / static_cast<double>(count);
  return std::pair(mean, std::max(0.0, squares / static_cast<double>(count) - mean * mean));
}

std::string SignedPercent(double share) {
  return (share < 0 ? "-" : "+") + runs::PercentText(std::fabs(share));
}

}  // namespace

std::optional<Trend> LossTrend(const std::vector<Stretch>& course) {
  return TrendOf(course, [](const Stretch& each) {
    return Moments(each.loss_sum, each.loss_squares, each.losses);
  });
}

std::optional<Trend> NormTrend(const std::vector<Stretch>& course) {
  return TrendOf(course, [](const Stretch& each) {
    return Moments(each.norm_sum, each.norm_squares, each.norms);
  });
}

std::optional<Trend> ScaleTrend(const std::vector<Stretch>& course) {
  return TrendOf(course, [](const Stretch& each) {
    return each.scale ? Moments(*each.scale, *each.scale * *each.scale, 1) : std::nullopt;
  });
}

Result<std::vector<Forecast>> ReadForecasts(const runs::Source& source) {
  std::vector<Forecast> found;
  if (!source.format.empty()) return found;  // a log has no samples
  MPN_TRY_ASSIGN(auto dtypes, runs::ReadDtypeNames(source));
  MPN_TRY_ASSIGN(auto steps, runs::LastSampledSteps(source, {}, kSamplesRead));
  if (steps.size() < kLeastGrowthPoints) return found;
  MPN_TRY_ASSIGN(auto reader, runs::SampleReader::Create(source, {"absmax"}));
  struct Course {
    std::vector<GrowthPoint> points;
    bool broken = false;
  };
  std::map<std::pair<int64_t, int64_t>, Course> courses;  // by layer and kind
  for (const int64_t step : steps) {
    MPN_TRY_ASSIGN(auto rows, reader.Sample(step));
    for (const runs::TensorRow& row : *rows) {
      const bool forward = row.kind == runs::kActivation || row.kind == runs::kInput;
      if (!forward || !row.dtype || !row.absmax) continue;
      const auto dtype = dtypes.find(*row.dtype);
      if (dtype == dtypes.end() || dtype->second != "float16") continue;
      Course& course = courses[{row.layer_id, row.kind}];
      course.broken = course.broken || row.NonFinite() > 0;
      const auto at = static_cast<double>(step);
      if (course.points.empty() || course.points.back().step != at)
        course.points.push_back({at, 0});
      course.points.back().value = std::max(course.points.back().value, *row.absmax);
    }
  }
  runs::Layers layers(source);
  const double end = Info(Format::kFp16).max;
  for (const auto& [key, course] : courses) {
    const auto newest = static_cast<double>(steps.back());
    if (course.broken || course.points.back().step != newest) continue;
    const auto crossing = ForecastCrossing(course.points, end);
    if (!crossing) continue;
    MPN_TRY_ASSIGN(auto layer, layers.Find(key.first));
    found.push_back({layer.name, key.second, course.points.back().value, end, *crossing});
  }
  std::stable_sort(found.begin(), found.end(), [](const Forecast& a, const Forecast& b) {
    return a.crossing.step < b.crossing.step;
  });
  if (found.size() > kForecastsShown) found.resize(kForecastsShown);
  return found;
}

std::string ForecastText(const Forecast& each) {
  const auto step = [](double at) { return std::to_string(std::llround(at)); };
  const std::string layer = each.layer.empty() ? "the model" : LayerWord(runs::Name(each.layer));
  return layer + "'s " + (each.kind == runs::kInput ? "input" : "output") + ", now " +
         Number(each.now, 3) + " and growing " + runs::PercentText(each.crossing.per_step) +
         " a step, reaches " + Number(each.end, 5) + " (FP16) at about step " +
         step(each.crossing.step) + " (" + step(each.crossing.earliest) + " to " +
         step(each.crossing.latest) + ").";
}

Json ForecastJson(const Forecast& each) {
  return {{"layer", runs::Name(each.layer)},
          {"kind", runs::KindName(each.kind)},
          {"now", JsonNumber(each.now, 4)},
          {"end", each.end},
          {"step", std::llround(each.crossing.step)},
          {"earliest", std::llround(each.crossing.earliest)},
          {"latest", std::llround(each.crossing.latest)}};
}

Json TrendJson(const std::optional<Trend>& trend) {
  if (!trend) return nullptr;
  return {{"per_100_steps", JsonNumber(trend->per_100_steps, 3)},
          {"scatter", JsonNumber(trend->scatter, 3)}};
}

std::string TrendText(const std::string& what, const std::optional<Trend>& trend) {
  if (!trend) return "";
  // More scatter than level: a slope means nothing then.
  if (trend->scatter > 1) return what + " without a trend (it scatters by more than its level)";
  return what + " " + SignedPercent(trend->per_100_steps) + " per 100 steps (scatter " +
         runs::PercentText(trend->scatter) + ")";
}

}  // namespace mpnanny::summary
