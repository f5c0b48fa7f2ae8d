#include "numerics/growth.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace mpnanny {
namespace {

// Of the points that are looked at, this share of the newest is fitted: a start is not the trend.
constexpr double kNewest = 0.75;
// The slope has to be so many of its standard errors, and to lift the figure by this factor over the
// points that are fitted: a figure that hovers is no growth.
constexpr double kClearSlope = 4;
constexpr double kLeastRise = 1.25;
// The slope of the newer half has to be this share of the whole's: what levels off is not told.
constexpr double kStillGrows = 0.7;
// The bound has to be reached within this share of the steps that were seen.
constexpr double kHorizon = 1;
// The bound is first reached by a value that lies so many standard deviations above the trend.
constexpr double kAbove = 1.5;

// y = at_mean + slope · (x - mean), by least squares.
struct Line {
  double mean = 0, at_mean = 0, slope = 0;
  double slope_error = 0, scatter = 0;

  double At(double x) const { return at_mean + slope * (x - mean); }
};

Line Fit(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  Line line;
  // Divided once: the mean of equal steps is that step, and their spread then nothing.
  line.mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
  line.at_mean = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xx = 0, xy = 0, squares = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - line.mean) * (x[i] - line.mean);
    xy += (x[i] - line.mean) * (y[i] - line.at_mean);
  }
  if (!(xx > 0)) return line;
  line.slope = xy / xx;
  for (size_t i = 0; i < x.size(); ++i) squares += std::pow(y[i] - line.At(x[i]), 2);
  line.scatter = std::sqrt(squares / std::max(1.0, n - 2));
  line.slope_error = line.scatter / std::sqrt(xx);
  return line;
}

// Growth by a factor, by a power of the step, or by an amount: x and y in which it is a line.
struct Model {
  double (*x)(double step);
  double (*step)(double x);
  double (*y)(double value);
  double (*value)(double y);
};
double Same(double x) { return x; }
double Log(double x) { return std::log(x); }
double Exp(double x) { return std::exp(x); }
constexpr Model kModels[] = {{Same, Same, Log, Exp}, {Log, Exp, Log, Exp}, {Same, Same, Same, Same}};

struct Course {
  std::vector<double> steps, values;  // steps since the first that was seen, from 1
};

std::vector<double> Mapped(const std::vector<double>& from, double (*to)(double)) {
  std::vector<double> made(from.size());
  std::transform(from.begin(), from.end(), made.begin(), to);
  return made;
}

// A model's answer: the step, and the mean square of what it misses, in logarithms.
struct Answer {
  double step = 0, spread = 0, missed = 0;
  double rise = 0;  // over the points, in logarithms
  bool clear = false;
};

Answer Ask(const Model& model, const Course& course, double bound) {
  const Line line = Fit(Mapped(course.steps, model.x), Mapped(course.values, model.y));
  const auto value = [&](double step) {
    return std::max(model.value(line.At(model.x(step))), 1e-300);
  };
  Answer answer;
  for (size_t i = 0; i < course.steps.size(); ++i) {
    answer.missed += std::pow(std::log(course.values[i] / value(course.steps[i])), 2);
  }
  answer.missed /= static_cast<double>(course.steps.size());
  answer.clear = line.slope > kClearSlope * line.slope_error;
  answer.rise = std::log(value(course.steps.back()) / value(course.steps.front()));
  const double reached = bound / std::exp(kAbove * std::sqrt(answer.missed));
  const double at = line.mean + (model.y(reached) - line.at_mean) / line.slope;
  answer.step = std::max(course.steps.back(), model.step(at));
  const double off = 2 * (line.scatter + std::fabs(at - line.mean) * line.slope_error) / line.slope;
  answer.spread = std::fabs(model.step(at + off) - answer.step);
  return answer;
}

// Whether the newer half grows, by an amount a step, nearly as fast as the whole.
bool StillGrows(const Course& course) {
  const Line whole = Fit(course.steps, course.values);
  const auto half = static_cast<std::ptrdiff_t>(course.steps.size() / 2);
  const Line newer = Fit({course.steps.begin() + half, course.steps.end()},
                         {course.values.begin() + half, course.values.end()});
  return newer.slope > kStillGrows * whole.slope - 2 * newer.slope_error;
}

}  // namespace

std::optional<Crossing> ForecastCrossing(std::span<const GrowthPoint> all, double bound) {
  Course course;
  for (const GrowthPoint& each : all) {
    if (!(each.value > 0) || !std::isfinite(each.value)) continue;
    course.steps.push_back(each.step - all.front().step + 1);
    course.values.push_back(each.value);
  }
  const size_t known = course.steps.size();
  if (known < kLeastGrowthPoints || !(bound > course.values.back())) return std::nullopt;
  const double first = course.steps.front(), last = course.steps.back();
  const auto newest = static_cast<size_t>(kNewest * static_cast<double>(known));
  const auto older = static_cast<std::ptrdiff_t>(known - newest);
  course.steps.erase(course.steps.begin(), course.steps.begin() + older);
  course.values.erase(course.values.begin(), course.values.begin() + older);
  if (!StillGrows(course)) return std::nullopt;
  Answer best;
  double earliest = HUGE_VAL, latest = 0;
  for (const Model& model : kModels) {
    const Answer answer = Ask(model, course, bound);
    if (!answer.clear || answer.rise < std::log(kLeastRise) || !std::isfinite(answer.step)) continue;
    if (!best.clear || answer.missed < best.missed) best = answer;
    earliest = std::min(earliest, answer.step);
    latest = std::max(latest, answer.step);
  }
  if (!best.clear || best.step - last > kHorizon * (last - first)) return std::nullopt;
  const double origin = all.front().step - 1;
  Crossing crossing;
  crossing.step = origin + best.step;
  // Models that fit less well pull the range half their way.
  const double early = std::min(best.step - best.spread, (best.step + earliest) / 2);
  crossing.earliest = origin + std::max(last, early);
  crossing.latest = origin + std::max(best.step + best.spread, (best.step + latest) / 2);
  const double steps = course.steps.back() - course.steps.front();
  crossing.per_step = std::expm1(best.rise / steps);
  return crossing;
}

}  // namespace mpnanny
