#include <algorithm>
#include <cmath>

#include "tools/diagnose_run/log_reader.h"
#include "tools/diagnose_run/stat_signals.h"
#include "tools/diagnose_run/step_course.h"
#include "tools/run_summary/step_fold.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {

Facts GatherLog(const LogRows& log, const cases::CaseLibrary& library) {
  Facts facts;
  facts.monitored = false;
  facts.log_hits = log.hits;
  facts.precision = log.precision;
  run_summary::StepFold fold(facts.summary);
  StepCourse course;
  for (const runs::StepRow& row : log.steps) {
    fold.Add(row);
    course.Add(row);
  }
  fold.Finish();
  course.Finish(facts);
  facts.alerts = course.DerivedAlerts();

  if (const auto step = course.FirstBadStep()) {
    Onset onset;
    onset.step = *step;
    const auto row = std::find_if(log.steps.begin(), log.steps.end(),
                                  [&](const runs::StepRow& r) { return r.step == *step; });
    if (course.LossIsBad()) {
      onset.phase = "";  // a NaN loss may come from anywhere before it
      onset.is_nan = row->flags & runs::kLossNan;
      onset.is_inf = row->flags & runs::kLossInf;
      const bool part = row->loss && std::isfinite(*row->loss);
      onset.what = std::string(part ? "a part of the loss is " : "the loss is ") +
                   (onset.is_nan ? "NaN" : "infinite");
    } else if (course.LossIsZeroed()) {
      onset.phase = "";  // the loss may have been NaN as well
      onset.what = "the gradient norm is not finite from here on, and the loss is logged as 0";
    } else {
      onset.phase = "backward";
      onset.what = "non-finite gradients from here on, every step";
    }
    onset.how = "a log names no layer";
    facts.onset = std::move(onset);
  }
  std::vector<runs::StepRow> before;
  for (const runs::StepRow& row : log.steps) {
    if (!facts.onset || row.step <= facts.onset->step) before.push_back(row);
  }
  FindStepSignals(library, before, facts.stat_hits);

  facts.limits.push_back("Read from a text log: figures stand in " +
                         std::to_string(log.lines_used) + " of " + runs::Count(log.lines, "line") +
                         ". A log shows neither layers nor tensors, so the producer cannot be "
                         "named.");
  if (log.steps.empty()) return facts;
  if (log.steps_counted) {
    facts.limits.push_back(
        "The log has no step numbers: its lines with a loss were counted from 0.");
  }
  if (log.steps_restarted) {
    facts.limits.push_back(
        "The log's step numbers begin anew: steps were counted on from the last one before, so "
        "step numbers here are not those printed.");
  }
  if (!facts.summary.scale_first) facts.limits.push_back("The log shows no loss scale.");
  if (!std::any_of(log.steps.begin(), log.steps.end(),
                   [](const runs::StepRow& row) { return row.grad_norm.has_value(); })) {
    facts.limits.push_back("The log shows no gradient norm.");
  }
  return facts;
}

}  // namespace mpnanny::diagnose_run
