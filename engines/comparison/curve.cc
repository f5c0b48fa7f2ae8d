#include "engines/comparison/curve.h"

#include <algorithm>
#include <cmath>

namespace mpnanny::comparison {
namespace {

constexpr double kScaleFactor = 4;

double Mean(const std::vector<double>& values, size_t first, size_t count) {
  double sum = 0;
  for (size_t i = first; i < first + count; ++i) sum += values[i];
  return sum / static_cast<double>(count);
}

// One window against what noise explains.
struct JudgedWindow {
  double apart = 0, limit = 0, step_limit = 0;
  bool beyond() const { return std::fabs(apart) > limit; }
};

// Windows of `width` values, one after the other; values are logarithms if `logs`.
class Windows {
 public:
  Windows(const Curve& curve, size_t width, double rounding, bool logs)
      : c_(curve), width_(width), rounding_(rounding), logs_(logs), count_(c_.a.size() / width) {
    deviations_ = LimitInDeviations(count_);
  }

  size_t count() const { return count_; }

  JudgedWindow Judge(size_t window) const {
    const size_t first = window * width_;
    // Neighbours join: a window alone may be too short to tell its own variation.
    const size_t from = first >= width_ ? first - width_ : 0;
    const size_t to = std::min(first + 2 * width_, c_.a.size());
    const double variation = OwnVariation(c_.a.data() + from, to - from);
    const double mean_a = Mean(c_.a, first, width_);
    // What the reference itself covers within half a window's time on either side.
    double drift = 0;
    if (window > 0) drift = std::max(drift, std::fabs(mean_a - MeanA(window - 1)));
    if (window + 1 < count_) drift = std::max(drift, std::fabs(mean_a - MeanA(window + 1)));
    const double rounding = logs_ ? rounding_ : rounding_ * std::fabs(mean_a);
    const double noise = deviations_ * std::sqrt(2.0) * variation;
    JudgedWindow judged;
    judged.apart = Mean(c_.b, first, width_) - mean_a;
    judged.limit = rounding + noise / std::sqrt(static_cast<double>(width_)) + drift / 2;
    judged.step_limit = rounding + noise + drift / 2;
    return judged;
  }

 private:
  double MeanA(size_t window) const { return Mean(c_.a, window * width_, width_); }

  const Curve& c_;  // borrowed
  size_t width_;
  double rounding_;
  bool logs_;
  size_t count_;
  double deviations_ = 0;
};

}  // namespace

Curve Paired(const Curve& curve) {
  Curve paired;
  for (size_t i = 0; i < curve.steps.size(); ++i) {
    if (!std::isfinite(curve.a[i]) || !std::isfinite(curve.b[i])) continue;
    paired.steps.push_back(curve.steps[i]);
    paired.a.push_back(curve.a[i]);
    paired.b.push_back(curve.b[i]);
  }
  return paired;
}

bool AllPositive(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return v > 1e-30; });
}

size_t DefaultWindow(size_t steps) { return std::clamp<size_t>(steps / 20, 5, 200); }

std::optional<CurveParting> FindParting(const Curve& raw, size_t window, double rounding) {
  const Curve plain = Paired(raw);
  const size_t width = std::min(window, plain.a.size());
  if (width == 0) return std::nullopt;
  Curve curve = plain;
  const bool logs = AllPositive(curve.a) && AllPositive(curve.b);
  if (logs) {
    for (double& value : curve.a) value = std::log(value);
    for (double& value : curve.b) value = std::log(value);
  }
  const Windows windows(curve, width, rounding, logs);
  for (size_t w = 0; w < windows.count(); ++w) {
    const JudgedWindow here = windows.Judge(w);
    if (!here.beyond()) continue;
    if (w + 1 < windows.count()) {
      const JudgedWindow next = windows.Judge(w + 1);
      if (!next.beyond() || (next.apart > 0) != (here.apart > 0)) continue;
    } else if (windows.count() > 1) {
      continue;  // only the last window: not confirmed
    }
    const size_t begin = w * width;
    size_t first = begin;
    const auto beyond = [&](size_t i) {
      const double apart = curve.b[i] - curve.a[i];
      return std::fabs(apart) > here.step_limit && (apart > 0) == (here.apart > 0);
    };
    while (first < begin + width && !beyond(first)) ++first;
    CurveParting parting;
    if (first == begin + width) {
      first = begin;
      parting.mean_of = width;
    }
    parting.step = plain.steps[first];
    parting.a = Mean(plain.a, first, parting.mean_of);
    parting.b = Mean(plain.b, first, parting.mean_of);
    const double limit = parting.mean_of > 1 ? here.limit : here.step_limit;
    parting.limit = logs ? std::fabs(parting.a) * std::expm1(limit) : limit;
    return parting;
  }
  return std::nullopt;
}

std::optional<CurveParting> FindScaleParting(const Curve& raw, size_t window) {
  const Curve curve = Paired(raw);
  size_t run = 0;
  for (size_t i = 0; i < curve.a.size(); ++i) {
    const double a = curve.a[i], b = curve.b[i];
    run = std::max(a, b) > kScaleFactor * std::min(a, b) ? run + 1 : 0;
    if (run < std::min(window, curve.a.size())) continue;
    const size_t first = i + 1 - run;
    return CurveParting{curve.steps[first], curve.a[first], curve.b[first],
                        std::fabs(curve.a[first]) * (kScaleFactor - 1)};
  }
  return std::nullopt;
}

std::optional<Ending> CompareEndings(const Curve& raw, size_t window) {
  const Curve curve = Paired(raw);
  const size_t n = curve.a.size();
  if (n == 0) return std::nullopt;
  // Start, middle and end are to be three windows.
  const size_t width = std::max<size_t>(1, std::min(window, (n + 2) / 3));
  const size_t last = n - width;
  const auto cut = [&](const std::vector<double>& values, size_t first) {
    return std::vector<double>(values.begin() + static_cast<ptrdiff_t>(first),
                               values.begin() + static_cast<ptrdiff_t>(first + width));
  };
  Ending ending;
  ending.last = CompareWindows(cut(curve.a, last), cut(curve.b, last));
  ending.start_a = Mean(curve.a, 0, width);
  ending.start_b = Mean(curve.b, 0, width);
  ending.first_step = curve.steps[last];
  ending.last_step = curve.steps.back();
  const double per_window = 2 * std::sqrt(2.0 / static_cast<double>(width));
  ending.noise_a = per_window * OwnVariation(curve.a.data(), n);
  ending.noise_b = per_window * OwnVariation(curve.b.data(), n);
  const size_t middle = last / 2;
  ending.late_a = ending.last.a - Mean(curve.a, middle, width);
  ending.late_b = ending.last.b - Mean(curve.b, middle, width);
  const size_t late = n - middle;
  ending.late_noise = per_window * std::max(OwnVariation(curve.a.data() + middle, late),
                                            OwnVariation(curve.b.data() + middle, late));
  return ending;
}

}  // namespace mpnanny::comparison
