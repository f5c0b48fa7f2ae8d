#include "tools/diagnose_run/detectors/detector.h"
#include "tools/run_summary/stability.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {

void DetectSkippedSteps(const Facts& facts, std::vector<Claim>& claims) {
  const run_summary::Summary& s = facts.summary;
  if (!run_summary::TooManySkips(s)) return;
  Claim claim;
  claim.id = "skipped-steps";
  claim.sentence = runs::Count(s.skipped_steps, "optimizer step") + " of " +
                   std::to_string(s.steps) + " were skipped" + run_summary::SkipsApart(s) +
                   ", the longest row " +
                   std::to_string(facts.scale.longest_skip_run) + " from step " +
                   std::to_string(facts.scale.longest_skip_first.value_or(0)) +
                   "; growing the scale explains about one in 2,000 (torch's GradScaler).";
  claim.strength = 0.4;
  claim.favours = {"component:scaler"};
  claim.opposes = {"category:stale-update"};
  claims.push_back(std::move(claim));
  return;
}

}  // namespace mpnanny::diagnose_run
