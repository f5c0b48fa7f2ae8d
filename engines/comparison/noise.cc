#include "engines/comparison/noise.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mpnanny::comparison {
namespace {

constexpr double kDeviationsPerMad = 1.4826;  // of a normal distribution
constexpr double kHalfUlpsAtP99 = 1.25;       // one matmul; docs/compare_runs.md

}  // namespace

double Median(std::vector<double> values) {
  std::erase_if(values, [](double v) { return !std::isfinite(v); });
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  const double upper = *middle;
  if (values.size() % 2 == 1) return upper;
  return (upper + *std::max_element(values.begin(), middle)) / 2;
}

double OwnVariation(const double* values, size_t count) {
  std::vector<double> off;
  for (size_t i = 1; i + 1 < count; ++i) {
    const double residual = values[i] - (values[i - 1] + values[i + 1]) / 2;
    if (std::isfinite(residual)) off.push_back(std::fabs(residual));
  }
  if (off.empty()) return 0;
  // Independent noise of variance s^2 leaves residuals of variance 1.5 s^2.
  return kDeviationsPerMad * Median(std::move(off)) / std::sqrt(1.5);
}

double LimitInDeviations(size_t comparisons) {
  return 1 + std::sqrt(2 * std::log(static_cast<double>(std::max<size_t>(comparisons, 2))));
}

double RoundingLimit(double half_ulp, double depth) {
  return kHalfUlpsAtP99 * half_ulp * std::sqrt(std::max(depth, 1.0));
}

WindowDifference CompareWindows(const std::vector<double>& a, const std::vector<double>& b) {
  WindowDifference result;
  std::vector<double> apart;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) continue;
    result.a += a[i];
    result.b += b[i];
    apart.push_back(b[i] - a[i]);
  }
  result.count = apart.size();
  if (apart.empty()) return result;
  const auto n = static_cast<double>(apart.size());
  result.a /= n;
  result.b /= n;
  double squares = 0, products = 0;
  const double mean = result.b - result.a;
  for (size_t i = 0; i < apart.size(); ++i) {
    squares += (apart[i] - mean) * (apart[i] - mean);
    if (i > 0) products += (apart[i] - mean) * (apart[i - 1] - mean);
  }
  if (apart.size() < 2 || squares == 0) return result;
  // A chain of correlation r carries as much as n (1 - r) / (1 + r) independent values.
  const double r = std::clamp(products / squares, 0.0, 0.95);
  result.standard_error = std::sqrt(squares / (n - 1) / n * (1 + r) / (1 - r));
  return result;
}

}  // namespace mpnanny::comparison
