#include "monitor/core/gradient_observer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/layer_word.h"
#include "monitor/core/alert_book.h"
#include "monitor/core/alert_types.h"
#include "monitor/core/json_text.h"
#include "monitor/core/non_finite_findings.h"

namespace mpnanny {

void GradientObserver::BeginStep() {
  bad_.clear();
  read_ = last_good_ = 0;
  squares_ = largest_ = 0;
  largest_layer_ = 0;
  absmax_.Clear();
}

void GradientObserver::Observe(std::span<const ParameterView> gradients, double inverse_scale) {
  for (const ParameterView& gradient : gradients) {
    const size_t order = read_++;
    double squares = 0;
    if (schedule_.sampling() && samples_.Watches(TensorKind::kGradient)) {
      const Measured measured = samples_.Measure(gradient.view, TensorKind::kGradient);
      const TensorStats& stats = measured.stats;
      SampleOptions how;
      how.factor = inverse_scale;
      samples_.Add(gradient.layer, TensorKind::kGradient, 0, gradient.view, measured, how);
      squares = stats.nonfinite() > 0 ? std::numeric_limits<double>::quiet_NaN() : stats.squares;
      const double absmax = stats.absmax * inverse_scale;
      if (stats.finite > 0 && absmax >= largest_) {
        largest_ = absmax;
        largest_layer_ = gradient.layer;
      }
      if (const int64_t owner = layers_.at(gradient.layer).owner; owner > 0 && stats.finite > 0)
        absmax_[owner] = std::max(absmax_[owner], absmax);
    } else {
      squares = SumOfSquares(gradient.view);
    }
    squares_ += squares * inverse_scale * inverse_scale;
    if (std::isfinite(squares)) {
      last_good_ = order + 1;
    } else {
      bad_.push_back({order, gradient.layer, ComputeStats(gradient.view)});
    }
  }
}

void GradientObserver::ObserveActivation(int64_t layer, int32_t slot, const TensorView& gradient,
                                         double inverse_scale) {
  if (!samples_.Watches(TensorKind::kActivationGradient)) return;
  SampleOptions how;
  how.factor = inverse_scale;
  samples_.Add(layer, TensorKind::kActivationGradient, slot, gradient,
               samples_.Measure(gradient, TensorKind::kActivationGradient), how);
}

std::optional<double> GradientObserver::norm() const {
  return read_ > 0 ? std::optional(std::sqrt(squares_)) : std::nullopt;
}

void GradientObserver::RaiseNonFinite(const StepEnd& end, const ScaleConditions& scale,
                                      Alerts& out) const {
  if (bad_.empty() || (end.loss && !std::isfinite(*end.loss))) return;
  // GradScaler skips such a step and lowers the scale; that is how it works. It stays no accident
  // once the scale is so low that the scale cannot be the reason.
  if (end.skipped && end.scale &&
      !(scale.skipped_in_a_row() >= kDeclineFalls && *end.scale < scale.low_bound())) {
    return;
  }
  // The backward pass runs from the last layer to the first: the last one that is not finite comes
  // first.
  const NonFinite& first = bad_.back();
  const bool later_is_finite = last_good_ > first.order + 1;
  const bool nan = first.stats.nan > 0;
  AlertRow& alert = out.emplace_back(MakeAlert(
      nan ? AlertType::kNan : AlertType::kInf, schedule_.step(), Phase::kBackward,
      LayerWord(layers_.at(first.layer).name) + ": its gradient has " + CountsOf(first.stats) +
          " elements; loss and forward pass are finite. " + std::to_string(bad_.size()) + " of " +
          std::to_string(read_) + " gradients are not finite."));
  alert.layer = first.layer;
  alert.kind = TensorKind::kGradient;
  alert.value = static_cast<double>(first.stats.nonfinite());
  alert.threshold = 0;
  if (later_is_finite) alert.producer = 1;
  JsonObject detail;
  detail.Text("where", "gradients");
  AddCounts(first.stats, detail);
  JsonObject counts;
  counts.Int("not_finite", static_cast<int64_t>(bad_.size()));
  counts.Int("of", static_cast<int64_t>(read_));
  alert.detail = detail.Json("gradients", counts.Take()).Take();
}

void GradientObserver::RaiseMagnitude(Alerts& out) {
  if (read_ == 0 || !bad_.empty() || largest_layer_ <= 0) return;
  conditions_.Magnitude(schedule_.step(), largest_, largest_layer_, layers_.at(largest_layer_).name,
                        out);
}

void GradientObserver::RaiseSmallLayers(const ForwardObserver& forward, Alerts& out) {
  std::vector<LayerGradient> gradients;
  for (int64_t id = 1; id <= absmax_.last(); ++id) {
    const Layer& each = layers_.at(id);
    const bool ran = forward.Ran(id) || each.type == kParameterType || !forward.any_ran();
    if (absmax_.Get(id) >= 0 && ran) gradients.push_back({id, each.name, absmax_.Get(id)});
  }
  VanishingLayers(schedule_.step(), gradients, out);
  dead_layers_.Sample(schedule_.step(), gradients, out);
}

}  // namespace mpnanny
