#include "monitor/core/alert_growth.h"

#include <cmath>
#include <string>
#include <vector>

#include "base/layer_word.h"
#include "monitor/core/alert_book.h"
#include "monitor/core/alert_types.h"
#include "monitor/core/alert_values.h"
#include "numerics/format.h"

namespace mpnanny {
namespace {

constexpr size_t kPointsKept = 24;

}  // namespace

void OverflowAhead::See(int64_t step, int64_t layer, TensorKind kind, const TensorStats& stats) {
  Points& points = layers_[{layer, static_cast<int>(kind)}];
  if (stats.nonfinite() > 0) {
    points.clear();
    return;
  }
  const auto at = static_cast<double>(step);
  if (points.empty() || points.back().step < at) points.push_back({at, 0});
  points.back().value = std::max(points.back().value, stats.absmax);
  if (points.size() > kPointsKept) points.pop_front();
}

void OverflowAhead::RaiseOne(int64_t step, int64_t layer, TensorKind kind, std::string_view name,
                             const Points& points, Alerts& out) {
  const double end = Info(Format::kFp16).max;
  if (points.size() < kLeastGrowthPoints || points.back().value < kAheadOfMax * end) return;
  const std::vector<GrowthPoint> held(points.begin(), points.end());
  const auto crossing = ForecastCrossing(held, end);
  if (!crossing) return;
  AlertRow& alert = out.emplace_back(MakeAlert(
      AlertType::kOverflowAhead, step, KindPhase(kind),
      (name.empty() ? "the model" : LayerWord(name)) +
          Message(": at this growth (%.3g %% a step) the %s reaches FP16's %g at about step %lld "
                  "(%lld to %lld); it is %.4g now.",
                  100 * crossing->per_step, std::string(KindWord(kind)).c_str(), end,
                  std::llround(crossing->step), std::llround(crossing->earliest),
                  std::llround(crossing->latest), held.back().value)));
  alert.layer = layer;
  alert.kind = kind;
  alert.value = crossing->step;
  alert.threshold = end;
}

}  // namespace mpnanny
