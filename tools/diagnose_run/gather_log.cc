#include <cmath>
#include <limits>

#include "tools/diagnose_run/log_hits.h"
#include "tools/diagnose_run/step_pass.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

// An evaluation's loss is not finite, and the training's looks sound: HF's Trainer logs a training
// loss that is NaN as 0.
Onset OnsetOfEvaluation(const Facts& facts) {
  const runs::Evaluations& seen = facts.evaluations;
  Onset onset;
  onset.step = *seen.first_bad;
  onset.is_nan = seen.is_nan;
  onset.is_inf = !seen.is_nan;
  onset.what = "the loss of an evaluation (" + runs::Name(seen.name) + ") is " +
               (seen.is_nan ? "NaN" : "infinite") + ", first at step " +
               std::to_string(onset.step) + ", in " + std::to_string(seen.nonfinite) + " of " +
               runs::Count(seen.count, "evaluation");
  const Course& course = facts.course;
  if (course.zero_losses > 0 && course.zero_from <= onset.step) {
    onset.step = course.zero_from;
    onset.what +=
        "; the training loss is logged as exactly 0 from step " + std::to_string(onset.step) +
        " on, as HF's Trainer logs a loss that is NaN";
  }
  onset.how = "a log names no layer";
  return onset;
}

}  // namespace

Result<Facts> GatherLog(const runs::Source& source, std::vector<LogHit> hits,
                        const cases::CaseLibrary& library, CancelToken::Clock::duration limit) {
  Facts facts;
  facts.monitored = false;
  facts.log_hits = std::move(hits);
  facts.precision = source.run.precision;
  facts.limits = source.notes;
  facts.numbered = source.numbered;
  facts.status = source.run.status;
  MPN_TRY_ASSIGN(facts.protocol, ReadProtocol(source));
  auto evaluations = runs::ReadEvaluations(source);
  if (!evaluations) return evaluations.error();
  facts.evaluations = *std::move(evaluations);
  StepPass steps(library, limit);
  auto read = steps.Read(source, std::numeric_limits<int64_t>::max(), facts);
  if (!read) return read.error();
  const StepCourse& course = steps.course();
  facts.alerts = course.DerivedAlerts();
  if (SpikesAreNoise(facts.turns)) {
    std::erase_if(facts.alerts,
                  [](const SeenAlert& alert) { return alert.row.type == "LOSS_SPIKE"; });
  }

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
  } else if (facts.evaluations.first_bad) {
    facts.onset = OnsetOfEvaluation(facts);
    facts.bad_at_end = facts.evaluations.bad_at_end;
  }
  if (auto signals = steps.TakeSignals(source, facts); !signals) return signals.error();
  // A 0 that may stand for NaN is no figure that a case is known by.
  if (facts.course.zero_losses > 0) {
    std::erase_if(facts.stat_hits, [](const StatHit& hit) {
      return hit.signal.find("step.loss ") != std::string::npos && hit.value == 0;
    });
  }
  // Logs of FP16 often print the norm of scaled gradients: a bound on it means nothing.
  if (facts.summary.scale_max.value_or(1) > 1) {
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
