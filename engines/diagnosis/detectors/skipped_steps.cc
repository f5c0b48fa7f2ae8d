#include "engines/diagnosis/detectors/detector.h"
#include "engines/diagnosis/summary/stability.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {

void DetectSkippedSteps(const Facts& facts, std::vector<Claim>& claims) {
  const summary::Summary& s = facts.summary;
  if (!summary::TooManySkips(s)) return;
  Claim claim;
  claim.id = "skipped-steps";
  claim.sentence = {
      runs::Form("{0:optimizer step} of {1} were skipped{2}, the longest row {3} from step {4}; "
                 "growing the scale explains about one in 2,000 (torch's GradScaler).",
                 "{1} 步中有 {0} 次优化器更新被跳过{2}，"
                 "最长的一段从第 {4} 步起连续 {3} 步；缩放的增大约每 2,000 步解"
                 "释一次（torch 的 GradScaler）。"),
      {s.skipped_steps, s.steps, summary::SkipsApart(s), facts.scale.longest_skip_run,
       facts.scale.longest_skip_first.value_or(0)}};
  claim.strength = 0.4;
  claim.favours = {"component:scaler"};
  claim.opposes = {"category:stale-update"};
  claims.push_back(std::move(claim));
  return;
}

}  // namespace mpnanny::diagnosis
