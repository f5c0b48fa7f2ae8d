#include "tools/diagnose_run/tested.h"

#include <algorithm>

#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {

using runs::Count;

void ListTested(const Facts& facts, Diagnosis& d) {
  const run_summary::Summary& s = facts.summary;
  const auto add = [&](bool tested, std::string what, std::string otherwise) {
    (tested ? d.tested : d.not_tested).push_back(tested ? std::move(what) : std::move(otherwise));
  };
  const auto sampled = [&](int64_t kind) {
    return std::any_of(facts.profile.series.begin(), facts.profile.series.end(),
                       [&](const Series& series) { return series.kind == kind; });
  };
  const int64_t losses = s.finite_losses + s.nonfinite_losses;
  add(losses > 0, "the loss of " + Count(losses, "step"), "the loss (none was logged)");
  if (!facts.monitored) {
    d.not_tested.push_back("everything else: this is a log, and no monitor watched the run");
    return;
  }
  const auto shadows = static_cast<int64_t>(facts.measured.shadow_steps.size());
  add(shadows > 0,
      "every operator of " + Count(shadows, "step") + " of " + std::to_string(s.steps) +
          " against FP64, from the data to the optimizer's update",
      "precision (no step was run a second time in FP64)");
  const std::string samples = " in " + Count(s.sampled_steps, "sample");
  add(facts.has_activations, "activations" + samples, "activations");
  add(facts.has_gradients, "gradients" + samples, "gradients");
  add(sampled(runs::kUpdate), "the size of updates" + samples, "updates");
  add(sampled(runs::kOptimizerState), "optimizer states" + samples, "optimizer states");
  d.not_tested.push_back("whether data and labels are right");
  d.not_tested.push_back("evaluation, and averages of weights, beyond the steps above");
}

}  // namespace mpnanny::diagnose_run
