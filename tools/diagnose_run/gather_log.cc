#include <cmath>
#include <limits>

#include "tools/diagnose_run/log_hits.h"
#include "tools/diagnose_run/step_pass.h"

namespace mpnanny::diagnose_run {

Result<Facts> GatherLog(const runs::Source& source, std::vector<LogHit> hits,
                        const cases::CaseLibrary& library, CancelToken::Clock::duration limit) {
  Facts facts;
  facts.monitored = false;
  facts.log_hits = std::move(hits);
  facts.precision = source.run.precision;
  facts.limits = source.notes;
  StepPass steps(library, limit);
  auto read = steps.Read(source, std::numeric_limits<int64_t>::max(), facts);
  if (!read) return read.error();
  const StepCourse& course = steps.course();
  facts.alerts = course.DerivedAlerts();

  if (const auto step = course.FirstBadStep()) {
    Onset onset;
    onset.step = *step;
    auto row = runs::ReadStep(source, *step);
    if (!row) return row.error();
    if (course.LossIsBad() && *row) {
      onset.phase = "";  // a NaN loss may come from anywhere before it
      onset.is_nan = (*row)->flags & runs::kLossNan;
      onset.is_inf = (*row)->flags & runs::kLossInf;
      const bool part = (*row)->loss && std::isfinite(*(*row)->loss);
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
  if (auto signals = steps.TakeSignals(source, facts); !signals) return signals.error();
  // Logs of FP16 often print the norm of scaled gradients: a bound on it means nothing.
  if (facts.summary.scale_first) {
    std::erase_if(facts.stat_hits, [](const StatHit& hit) {
      return hit.signal.find("step.grad_norm") != std::string::npos;
    });
  }
  if (facts.summary.steps == 0) return facts;
  if (!facts.summary.scale_first) facts.limits.push_back("The log shows no loss scale.");
  if (!course.SawNorm()) facts.limits.push_back("The log shows no gradient norm.");
  return facts;
}

}  // namespace mpnanny::diagnose_run
