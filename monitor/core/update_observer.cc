#include "monitor/core/update_observer.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/layer_word.h"
#include "monitor/core/alert_book.h"
#include "monitor/core/json_text.h"
#include "monitor/core/non_finite_findings.h"
#include "monitor/core/tensor_sample.h"
#include "numerics/elements.h"

namespace mpnanny {
namespace {

constexpr int32_t kSecondMomentSlot = 1;  // Adam's exp_avg_sq (see the catalogue)

}  // namespace

void UpdateObserver::Expect(size_t parameters, int64_t interval) {
  copies_.Expect(static_cast<int64_t>(parameters),
                 interval < kOftenSteps ? UpdateSamples::kOftenElements : UpdateSamples::kElements);
}

void UpdateObserver::BeginStep() {
  updates_.clear();
  if (schedule_.sampling()) copies_.BeginStep();
}

void UpdateObserver::Before(std::span<const ParameterView> weights) {
  if (!schedule_.sampling() || !samples_.Watches(TensorKind::kUpdate)) return;
  int64_t left_out = 0;
  for (const ParameterView& weight : weights) left_out += !copies_.Keep(weight.layer, weight.view);
  if (left_out > 0 && !std::exchange(left_out_reported_, true)) {
    file_.Event(schedule_.step(), "updates_left_out",
                R"({"tensors":)" + std::to_string(left_out) + "}");
  }
}

void UpdateObserver::After(std::span<const UpdatedWeight> weights) {
  if (!schedule_.sampling()) return;
  for (const UpdatedWeight& weight : weights) {
    std::optional<UpdateFinding> found = copies_.Compare(weight);
    if (!found) continue;
    SampleOptions how;
    how.judge = false;
    how.frozen = found->frozen;
    TensorView empty;  // the differences are nowhere in memory
    empty.dtype = weight.weight.dtype;
    samples_.Add(weight.layer, TensorKind::kUpdate, 0, empty, {found->update}, how);
    updates_.push_back(*std::move(found));
  }
}

void UpdateObserver::States(std::span<const StateView> states) {
  if (!schedule_.sampling() || !samples_.Watches(TensorKind::kOptimizerState)) return;
  small_states_ = second_moments_ = 0;
  for (const StateView& state : states) {
    const std::optional<TensorSample> sample = SampleOf(state.view, copies_.limit());
    const TensorView view = sample ? sample->view() : state.view;
    const Measured measured = samples_.Measure(view, TensorKind::kOptimizerState);
    const TensorStats& stats = measured.stats;
    samples_.Add(state.layer, TensorKind::kOptimizerState, state.slot, view, measured, {});
    if (state.slot != kSecondMomentSlot || state.eps <= 0 || stats.finite <= stats.zeros) continue;
    ++second_moments_;
    state_eps_ = state.eps;
    const double bound = state.eps * state.eps;
    if (stats.absmin >= bound) continue;
    int64_t small = 0;
    ForEachElements(view, [&](const auto* values, int64_t count) {
      for (int64_t i = 0; i < count; ++i) small += values[i] > 0 && values[i] < bound;
    });
    small_states_ += 2 * small > stats.finite - stats.zeros;
  }
}

void UpdateObserver::RaiseNonFinite(Alerts& out) const {
  if (schedule_.dense()) return;  // the trace of operators reports it
  const auto origin = std::ranges::find_if(updates_, [](const UpdateFinding& update) {
    return update.after.nonfinite() > 0 && update.before.nonfinite() == 0 && update.gradient_finite;
  });
  if (origin == updates_.end()) return;
  const Layer& weight = layers_.at(origin->layer);
  AlertRow& alert = out.emplace_back(MakeAlert(
      origin->after.nan > 0 ? AlertType::kNan : AlertType::kInf, schedule_.step(),
      Phase::kOptimizer,
      LayerWord(weight.name) + ": the optimizer's step made " +
          std::to_string(origin->after.nonfinite()) + " of " + std::to_string(origin->after.numel) +
          " sampled weights non-finite; weights and gradient were finite before it."));
  // As the next forward pass will report it, which then goes on with this row.
  alert.layer = weight.owner;
  alert.kind = TensorKind::kWeight;
  alert.value = static_cast<double>(origin->after.nonfinite());
  alert.threshold = 0;
  alert.producer = 1;
  JsonObject detail;
  detail.Text("where", "optimizer").Json("finite_before", "true");
  AddCounts(origin->after, detail);
  alert.detail = detail.Take();
}

void UpdateObserver::RaiseStale(Alerts& out) {
  for (const UpdateFinding& update : updates_) {
    if (!update.judge || update.update.nonfinite() > 0) continue;
    stale_.Sample(schedule_.step(),
                  {update.layer, layers_.at(update.layer).name, update.dtype,
                   update.frozen.value_or(0), update.moved},
                  out);
  }
}

void UpdateObserver::ReportSmallStates() {
  if (2 * small_states_ <= second_moments_ || std::exchange(small_states_reported_, true)) return;
  file_.Event(
      schedule_.step(), "adam_eps",
      Message(R"({"eps":%g,"tensors":%lld,"of":%lld})", state_eps_,
              static_cast<long long>(small_states_), static_cast<long long>(second_moments_)));
}

}  // namespace mpnanny
