#include "tools/diagnose_run/step_pass.h"

#include <cmath>
#include <limits>

#include "tools/run_summary/step_fold.h"

namespace mpnanny::diagnose_run {

Result<void> StepPass::Read(const runs::Source& source, int64_t first_error, Facts& facts) {
  run_summary::StepFold fold(facts.summary);
  TurnFinder turns;
  last_offered_ = first_error;
  auto read = runs::ForEachStep(source, {}, [&](const runs::StepRow& row) {
    fold.Add(row);
    course_.Add(row);
    turns.Add(row);
    if (row.step <= last_offered_) signals_.Offer(row);
    if (row.step < last_offered_ && row.loss && !std::isfinite(*row.loss)) last_offered_ = row.step;
    return true;
  });
  if (!read) return read.error();
  fold.Finish();
  course_.Finish(facts);
  facts.turns = turns.Finish();
  return {};
}

Result<void> StepPass::TakeSignals(const runs::Source& source, Facts& facts) {
  const int64_t onset = facts.onset ? facts.onset->step : std::numeric_limits<int64_t>::max();
  if (last_offered_ != onset) return FindStepSignals(source, onset, library_, facts.stat_hits);
  for (StatHit& hit : signals_.Take()) facts.stat_hits.push_back(std::move(hit));
  return {};
}

}  // namespace mpnanny::diagnose_run
