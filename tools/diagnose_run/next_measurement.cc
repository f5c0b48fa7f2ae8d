#include "tools/diagnose_run/next_measurement.h"

#include <algorithm>

#include "base/text.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

constexpr double kSettled = 0.8;  // a best cause this sure …
constexpr int64_t kSomeSteps = 20;
constexpr int64_t kFewShadows = 3;
constexpr double kLead = 0.2;  // … and this far ahead needs no further measurement, only the fix

constexpr char kPatch[] =
    "Record the next run; two lines in the script:\n"
    "  from mpnanny import MixedPrecisionNanny; nanny = MixedPrecisionNanny(model, "
    "optimizer=optimizer, scaler=scaler)\n"
    "  with nanny.step(step) as record: ...; record.log(loss=loss)\n"
    "Then ask diagnose_run of nanny_logs/metrics.db.";

// Rules of the hypotheses' cases that nobody looked for yet.
std::vector<std::string> RulesToLookFor(const Facts& facts, const Diagnosis& diagnosis) {
  std::vector<std::string> rules;
  for (size_t i = 0; i < std::min<size_t>(3, diagnosis.hypotheses.size()); ++i) {
    for (const cases::Signal* signal : diagnosis.hypotheses[i].unseen) {
      if (signal->kind == cases::Signal::Kind::kRule && rules.size() < 4 &&
          facts.known_rules.contains(signal->name) &&
          std::find(rules.begin(), rules.end(), signal->name) == rules.end()) {
        rules.push_back(signal->name);
      }
    }
  }
  return rules;
}

}  // namespace

namespace {

// What is left to do about a cause that shadow steps measured.
std::string AfterMeasurement(const Facts& facts, const Hypothesis& best) {
  const runs::ShadowFinding& lead =
      facts.measured.Lead(facts.measured.mechanisms[*best.mechanism]).finding;
  const std::string past = std::to_string(lead.step);
  if (lead.was_bad_before && lead.precision == "not_tested") {
    return "What came in was not finite before step " + past +
           ": look at what is loaded or made before it (`mpnanny analyze FILE` of a checkpoint), "
           "not at the "
           "step itself.";
  }
  if (lead.precision != "not_tested") {
    return "None is needed for the cause: it is measured. To see that a fix works, apply it, train "
           "past step " +
           past + " with `mpnanny run --shadow steps=" + past + "-" +
           std::to_string(lead.step + 2) + " -- …` and ask again: this finding must be gone." +
           (facts.code_checked ? "" : " With the training code as `paths` the lines are shown.");
  }
  return "Train past step " + past + " once more with the lines above in FP32 and `mpnanny run "
         "--shadow steps=" + past + "-" + std::to_string(lead.step + 2) +
         " -- …`: if the finding is gone, precision is the cause there.";
}

}  // namespace

std::string NextMeasurement(const Facts& facts, const Diagnosis& diagnosis) {
  if (!facts.monitored) return kPatch;
  if (!diagnosis.hypotheses.empty() && diagnosis.hypotheses[0].mechanism) {
    return AfterMeasurement(facts, diagnosis.hypotheses[0]);
  }
  if (diagnosis.verdict == "healthy" && facts.precision == "fp32") {
    return "If the result is worse than expected all the same: the run computes in FP32, so look "
           "first at what stands under \"Not tested\": one batch, its labels, and the loss that an "
           "untrained model must have.";
  }
  if (diagnosis.verdict == "healthy") {
    return "If the result is worse than expected all the same: train the same seed in FP32 under "
           "the monitor and compare the two (compare_runs); where they agree, it is not precision, "
           "and what stands under \"Not tested\" comes next: look at one batch, its labels and the "
           "loss that an untrained model must have.";
  }
  if (const auto& failed = facts.protocol.failed;
      failed && (diagnosis.verdict == "not_established" || !facts.onset)) {
    if (failed->through_mode) {
      return "Run it again with `mpnanny run --shadow off -- …`: whether the exception is the "
             "program's own.";
    }
    return "None is needed for the exception: it names its line" +
           (failed->source.empty() ? "" : " (" + EscapeControl(failed->source, 200) + ")") +
           ". Change that, run again and ask again.";
  }
  if (diagnosis.verdict == "not_established") {
    return facts.summary.steps >= kSomeSteps ? "Look at what the headline names: whether it is "
                                               "meant to be so, the record cannot tell."
                                             : "Let the run make some steps with a logged loss "
                                               "(record.log(loss=loss)) and ask again.";
  }
  const auto shadows = static_cast<int64_t>(facts.measured.steps.size());
  if (shadows > 0 && shadows < kFewShadows && facts.summary.steps >= kSomeSteps) {
    return "Record the run again with `mpnanny run --shadow every=20 -- …`: only " +
           runs::Count(shadows, "step") + " of " + std::to_string(facts.summary.steps) +
           " ran a second time in FP64, and faults of the training loop (gradients that are not "
           "zeroed, states that are not restored) show in three and more.";
  }
  const auto& hypotheses = diagnosis.hypotheses;
  const bool settled =
      !hypotheses.empty() && hypotheses[0].confidence >= kSettled &&
      (hypotheses.size() == 1 || hypotheses[0].confidence - hypotheses[1].confidence >= kLead);
  if (settled && facts.onset && !facts.onset->layer.empty()) {
    return "The cause stands. To see that the fix works: apply it, train past step " +
           std::to_string(facts.onset->step) + " with trace_interval=10, and look at absmax of " +
           runs::Name(facts.onset->layer) + ".";
  }
  if (facts.measured.steps.empty()) {
    const int64_t step = facts.onset ? facts.onset->step : 0;
    return "Record the run again with `mpnanny run --shadow steps=" +
           std::to_string(std::max<int64_t>(0, step - 2)) + "-" + std::to_string(step + 1) +
           " -- …` from the last checkpoint before it: those steps then run a second time in FP64, "
           "which names the operator and says whether precision is to blame.";
  }
  if (!facts.code_checked) {
    const std::vector<std::string> rules = RulesToLookFor(facts, diagnosis);
    std::string text = "Call diagnose_run again with the training code as `paths`";
    if (!rules.empty()) {
      text += ": it costs milliseconds, and a finding of ";
      for (const std::string& rule : rules) text += (&rule == &rules.front() ? "" : " or ") + rule;
      text += " would decide between the causes";
    }
    return text + ".";
  }
  if (facts.onset && facts.onset->place == Onset::Place::kUnplaced) {
    return "Train again from the last checkpoint before step " + std::to_string(facts.onset->step) +
           " with MixedPrecisionNanny(model, trace_interval=1): every layer is then sampled at "
           "every step, and the producer gets a name.";
  }
  const bool half =
      facts.precision == "fp16" || facts.precision == "bf16" || facts.precision == "fp8";
  const int64_t steps = facts.onset ? facts.onset->step : facts.summary.last_step.value_or(0);
  if (half) {
    return "Train the same seed past step " + std::to_string(steps) +
           " in FP32 (autocast off) under the monitor: if it fails there as well, precision is not "
           "the "
           "cause; if it does not, the layer whose absmax there passes the format's limit is the "
           "one "
           "that must stay in FP32.";
  }
  return "Train the same seed with a tenth of the learning rate: if it holds, the step size is the "
         "cause and not the numbers.";
}

}  // namespace mpnanny::diagnose_run
