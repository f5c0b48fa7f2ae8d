#include "engines/comparison/gradient_path.h"

#include <algorithm>
#include <cmath>

#include "engines/comparison/noise.h"

namespace mpnanny::comparison {
namespace {

// Gradients of one loss that differ by more than this are not told apart by rounding in any format.
constexpr double kNormsApart = 1.25;
constexpr double kSpread = 1.5;  // of the factor from step to step: one factor, and not two courses
constexpr size_t kStepsLookedAt = 50;

}  // namespace

std::optional<NormFactor> FindNormFactor(const std::vector<Point>& points, double rounding) {
  std::vector<double> logs;
  NormFactor found;
  for (const Point& point : points) {
    if (logs.size() == kStepsLookedAt) break;
    if (!(point.norm_a > 0) || !(point.norm_b > 0)) continue;
    if (logs.empty()) {
      if (!std::isfinite(point.loss_a) || !std::isfinite(point.loss_b)) return std::nullopt;
      if (std::fabs(point.loss_b - point.loss_a) > rounding * std::fabs(point.loss_a)) {
        return std::nullopt;
      }
      found.step = point.step;
      found.loss_a = point.loss_a;
      found.loss_b = point.loss_b;
      found.norm_a = point.norm_a;
      found.norm_b = point.norm_b;
      found.scale_ratio =
          point.scale_a > 0 && point.scale_b > 0 ? point.scale_b / point.scale_a : 1;
    }
    logs.push_back(std::log(point.norm_b / point.norm_a));
  }
  if (logs.empty()) return std::nullopt;
  const double middle = Median(logs);
  if (std::fabs(middle) < std::log(kNormsApart) ||
      std::fabs(logs.front()) < std::log(kNormsApart)) {
    return std::nullopt;
  }
  const auto near = std::count_if(logs.begin(), logs.end(), [&](double each) {
    return std::fabs(each - middle) < std::log(kSpread);
  });
  if (2 * static_cast<size_t>(near) <= logs.size()) return std::nullopt;
  found.factor = std::exp(middle);
  found.steps = static_cast<int64_t>(logs.size());
  return found;
}

}  // namespace mpnanny::comparison
