#include "tools/diagnose_run/detectors/detector.h"
#include "tools/run_summary/stability.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {

void DetectLossScale(const Facts& facts, std::vector<Claim>& claims) {
  const ScaleTrack& scale = facts.scale;
  const run_summary::Summary& s = facts.summary;
  if (!s.scale_first) return;
  Claim claim;
  claim.id = "scale-decline";
  const std::string moves = runs::Number(s.scale_first) + " at first, " +
                            runs::Number(s.scale_last) + " at the end, least " +
                            runs::Number(s.scale_min);
  if (scale.collapsed || scale.stuck) {
    claim.id = "scale-never-recovers";
    claim.in_loop = true;
    claim.sentence = std::string("The loss scale ") + (scale.stuck ? "is stuck" : "collapsed") +
                     " (" + moves + "): " + runs::Count(s.skipped_steps, "step") + " of " +
                     std::to_string(s.steps) + " were skipped" +
                     run_summary::SkipsApart(s) + ".";
    claim.strength = 0.8;
    claim.favours = {"category:loss-scale-collapse"};
    claim.opposes = {"category:stale-update", "category:grad-vanish"};
    claims.push_back(std::move(claim));
    return;
  }
  if (scale.declining) {
    claim.sentence =
        "The loss scale keeps falling: " + runs::Count(scale.longest_fall_run, "fall") +
        " without a rise, from " + runs::Number(scale.fall_from) + " to " +
        runs::Number(scale.fall_to) + ".";
    claim.strength = 0.5;
    claim.favours = {"category:loss-scale-decline", "category:loss-scale-collapse"};
    claims.push_back(std::move(claim));
    return;
  }
  if (scale.startup_skips > 0) {
    claim.id = "startup-search";
    claim.sentence = "The " + runs::Count(scale.startup_skips, "skipped step") +
                     " at the beginning are the scaler's search for a scale (" + moves +
                     "): no fault.";
    claim.strength = 0.5;
    claim.opposes = {"category:loss-scale-decline", "category:loss-scale-collapse"};
    claims.push_back(std::move(claim));
    return;
  }
  return;
}

}  // namespace mpnanny::diagnose_run
