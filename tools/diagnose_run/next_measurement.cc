#include "tools/diagnose_run/next_measurement.h"

#include <algorithm>

#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

constexpr double kSettled = 0.8;  // a best cause this sure …
constexpr double kLead = 0.2;  // … and this far ahead needs no further measurement, only the fix

constexpr char kPatch[] =
    "Record the next run; two lines in the script:\n"
    "  from mpnanny import MixedPrecisionNanny; nanny = MixedPrecisionNanny(model, "
    "optimizer=optimizer, scaler=scaler)\n"
    "  with nanny.step(step) as record: ...; record.log(loss=loss)\n"
    "Then ask again with run=nanny_logs/metrics.db.";

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

std::string NextMeasurement(const Facts& facts, const Diagnosis& diagnosis) {
  if (!facts.monitored) return kPatch;
  if (diagnosis.verdict == "healthy") {
    return "None is needed. Whether the result equals a run in higher precision shows only beside "
           "such a run with the same seed.";
  }
  if (diagnosis.verdict == "not_established") {
    return "Let the run make some steps with a logged loss (record.log(loss=loss)) and ask again.";
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
  if (!facts.code_checked) {
    const std::vector<std::string> rules = RulesToLookFor(facts, diagnosis);
    std::string text = "Call diagnose_run again with paths=[the training code]";
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
