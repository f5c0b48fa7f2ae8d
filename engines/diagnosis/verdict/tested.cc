#include "engines/diagnosis/verdict/tested.h"

#include <algorithm>

#include "base/text.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {

using runs::Count;

namespace {

constexpr size_t kStepsNamed = 8, kParametersNamed = 3;

// "0 to 9, 20, 30 and 4 more".
std::string ShadowStepsText(const std::vector<runs::ShadowStep>& steps) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < steps.size();) {
    size_t end = i + 1;
    while (end < steps.size() && steps[end].step == steps[end - 1].step + 1) ++end;
    ranges.push_back(std::to_string(steps[i].step) +
                     (end - i > 1 ? " to " + std::to_string(steps[end - 1].step) : ""));
    i = end;
  }
  const size_t more = ranges.size() > kStepsNamed ? ranges.size() - kStepsNamed : 0;
  if (more > 0) ranges.resize(kStepsNamed);
  return Join(ranges, ", ") + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

int64_t Missing(const runs::Covered& covered) { return covered.of - covered.compared; }

void KeepMost(runs::Covered& most, const runs::Covered& other) {
  if (most.of == 0 || Missing(other) < Missing(most)) most = other;
}

// What the steps with a shadow compared, by the one of them that compared the most.
std::string ShadowTested(const ShadowEvidence& measured, int64_t all, std::optional<int64_t> last) {
  // What comes after the last step is an evaluation, and has the next one's number.
  std::vector<runs::ShadowStep> of_training;
  for (const runs::ShadowStep& step : measured.steps) {
    if (!last || step.step <= *last) of_training.push_back(step);
  }
  const bool after = of_training.size() < measured.steps.size();
  const auto count = static_cast<int64_t>(of_training.size());
  const std::string steps = Count(count, "step") + " of " + std::to_string(std::max(all, count)) +
                            " against FP64 (" + (count == 1 ? "step " : "steps ") +
                            ShadowStepsText(of_training) + ")" +
                            (after ? " and of what ran after the last one" : "");
  runs::Covered gradients, updates;
  bool known = true;
  for (const runs::ShadowStep& step : measured.steps) {
    if (step.why == "rerun") continue;
    known = known && step.covered;
    if (!step.covered) continue;
    KeepMost(gradients, step.covered->gradients);
    KeepMost(updates, step.covered->updates);
  }
  if (updates.of == 0) {
    return "every operator of " + steps +
           (known ? ", as far as it ran" : ", from the data to the optimizer's update");
  }
  const auto of = [](const runs::Covered& covered) {
    return std::to_string(covered.compared) + " of " + std::to_string(covered.of);
  };
  return "every operator of " + steps + ", with the gradients of " + of(gradients) +
         " parameters and the updates of " + of(updates);
}

// Parameters whose updates no step compared; "" if there are none.
std::string LeftOut(const ShadowEvidence& measured) {
  const runs::ShadowCoverage* most = nullptr;
  for (const runs::ShadowStep& step : measured.steps) {
    if (!step.covered || step.covered->updates.of == 0) continue;
    if (!most || Missing(step.covered->updates) < Missing(most->updates)) most = &*step.covered;
  }
  const int64_t missing = most ? Missing(most->updates) : 0;
  if (missing <= 0) return "";
  std::vector<std::string> names;
  for (const std::string& name : most->left_out) {
    if (names.size() < kParametersNamed) names.push_back(runs::Name(name));
  }
  const int64_t more = missing - static_cast<int64_t>(names.size());
  if (names.empty()) return "against FP64 the updates of " + Count(missing, "parameter");
  return "against FP64 the updates of " + Join(names, ", ") +
         (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

}  // namespace

void ListTested(const Facts& facts, Diagnosis& d) {
  const summary::Summary& s = facts.summary;
  const auto add = [&](bool tested, std::string what, std::string otherwise) {
    (tested ? d.tested : d.not_tested).push_back(tested ? std::move(what) : std::move(otherwise));
  };
  const auto sampled = [&](int64_t kind) {
    return std::any_of(facts.profile.series.begin(), facts.profile.series.end(),
                       [&](const Series& series) { return series.kind == kind; });
  };
  const int64_t losses = s.finite_losses + s.nonfinite_losses;
  const std::string& name = facts.progress.loss_name;
  add(losses > 0,
      "the loss " + (name.empty() ? "" : '"' + runs::Name(name) + "\" ") + "of " +
          Count(losses, "step"),
      "the loss (none was logged)");
  if (!facts.monitored) {
    if (s.grad_norm_max || (s.nonfinite_gradient_steps > 0 && !s.scale_first)) {
      d.tested.push_back("the gradient norm");
    }
    if (s.scale_first) d.tested.push_back("the loss scale and the skipped steps");
    if (facts.progress.scores_seen > 0) d.tested.push_back("the scores that it prints");
    if (facts.evaluations.count > 0) d.tested.push_back("the losses of evaluations");
    d.not_tested.push_back(
        "what the log does not hold: this is a log, and no monitor watched the run");
    return;
  }
  const auto shadows = static_cast<int64_t>(facts.measured.steps.size());
  add(shadows > 0, ShadowTested(facts.measured, s.steps, s.last_step),
      "precision (no step was run a second time in FP64)");
  if (const auto left_out = LeftOut(facts.measured); !left_out.empty())
    d.not_tested.push_back(left_out);
  const std::string samples = " in " + Count(s.sampled_steps, "sample");
  add(facts.has_activations, "activations" + samples, "statistics of activations");
  add(facts.has_gradients, "gradients" + samples, "statistics of gradients");
  add(sampled(runs::kUpdate), "the size of updates" + samples, "the size of updates");
  add(sampled(runs::kOptimizerState), "optimizer states" + samples,
      "statistics of optimizer states");
  d.not_tested.push_back("whether data and labels are right");
  d.not_tested.push_back("evaluation, and averages of weights, beyond the steps above");
}

}  // namespace mpnanny::diagnosis
