#include "engines/diagnosis/facts/step_pass.h"

#include "engines/diagnosis/summary/step_fold.h"
#include "engines/runs/whole_run.h"

namespace mpnanny::diagnosis {

Result<void> StepPass::Read(const runs::Source& source, Facts& facts) {
  summary::StepFold fold(facts.summary);
  TurnFinder turns;
  MPN_TRY_ASSIGN(facts.summary.ended_after,
                 runs::ForEachStepInTime(source, limit_, [&](const runs::StepRow& row) {
                   fold.Add(row);
                   course_.Add(row);
                   turns.Add(row);
                   if (row.loss) losses_.Add(row.step, *row.loss);
                 }));
  fold.Finish();
  facts.turns = turns.Finish();
  course_.Finish(facts);
  if (const auto after = facts.summary.ended_after) {
    facts.limits.push_back(runs::EndedEarly(*after));
  }
  return {};
}

}  // namespace mpnanny::diagnosis
