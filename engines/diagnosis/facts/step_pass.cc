#include "engines/diagnosis/facts/step_pass.h"

#include <cmath>
#include <limits>

#include "engines/diagnosis/summary/step_fold.h"
#include "engines/runs/remembered.h"

namespace mpnanny::diagnosis {

Result<StepPass::StepFigures> StepPass::ReadAll(const runs::Source& source,
                                                int64_t first_error) const {
  StepFigures seen;
  summary::StepFold fold(seen.summary);
  TurnFinder turns;
  StepSignals signals(library_);
  seen.last_offered = first_error;
  MPN_TRY_ASSIGN(auto ended, runs::ForEachStepInTime(source, limit_, [&](const runs::StepRow& row) {
                   fold.Add(row);
                   seen.course.Add(row);
                   turns.Add(row);
                   if (row.step <= seen.last_offered) signals.Offer(row);
                   if (row.step < seen.last_offered && row.loss && !std::isfinite(*row.loss)) {
                     seen.last_offered = row.step;
                   }
                 }));
  seen.summary.ended_after = ended;
  fold.Finish();
  seen.turns = turns.Finish();
  seen.hits = signals.Take();
  return seen;
}

Result<void> StepPass::Read(const runs::Source& source, int64_t first_error, Facts& facts) {
  static runs::Remembered<StepFigures> remembered(runs::kRunsRemembered);
  std::string key = runs::StampOfRun(source);
  if (!key.empty()) key += std::to_string(first_error) + "\n" + StepSignals::Texts(library_);
  seen_ = remembered.Find(key);
  if (!seen_) {
    auto seen = ReadAll(source, first_error);
    if (!seen) return seen.error();
    seen_ = remembered.Keep(seen->summary.ended_after ? "" : key, *std::move(seen));
  }
  facts.summary = seen_->summary;
  facts.turns = seen_->turns;
  seen_->course.Finish(facts);
  if (const auto after = seen_->summary.ended_after) {
    facts.limits.push_back(runs::EndedEarly(*after));
  }
  return {};
}

Result<void> StepPass::TakeSignals(const runs::Source& source, Facts& facts) {
  const int64_t onset = facts.onset ? facts.onset->step : std::numeric_limits<int64_t>::max();
  // Not again what took too long.
  if (seen_->last_offered != onset && !seen_->summary.ended_after) {
    return FindStepSignals(source, onset, library_, facts.stat_hits);
  }
  facts.stat_hits.insert(facts.stat_hits.end(), seen_->hits.begin(), seen_->hits.end());
  return {};
}

}  // namespace mpnanny::diagnosis
