#include "engines/diagnosis/detectors/detector.h"
#include "engines/diagnosis/summary/stability.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {

using runs::Form;
using runs::Sentence;

void DetectLossScale(const Facts& facts, std::vector<Claim>& claims) {
  const ScaleTrack& scale = facts.scale;
  const summary::Summary& s = facts.summary;
  if (!s.scale_first) return;
  Claim claim;
  claim.id = "scale-decline";
  const Sentence moves(
      Form("{0} at first, {1} at the end, least {2}", "开始 {0}，结束 {1}，最小 {2}"),
      {runs::Number(s.scale_first), runs::Number(s.scale_last), runs::Number(s.scale_min)});
  if (scale.collapsed || scale.stuck) {
    claim.id = "scale-never-recovers";
    claim.in_loop = true;
    claim.sentence = {scale.stuck
                          ? Form("The loss scale is stuck ({0}): {1:step} of {2} were skipped{3}.",
                                 "损失缩放卡住（{0}）：{2} 步中有 {1} 步被跳过{3}。")
                          : Form("The loss scale collapsed ({0}): {1:step} of {2} were skipped{3}.",
                                 "损失缩放崩塌（{0}）：{2} 步中有 {1} 步被跳过{3}。"),
                      {moves, s.skipped_steps, s.steps, summary::SkipsApart(s)}};
    claim.strength = 0.8;
    claim.favours = {"category:loss-scale-collapse"};
    claim.opposes = {"category:stale-update", "category:grad-vanish"};
    claims.push_back(std::move(claim));
    return;
  }
  if (scale.declining) {
    claim.sentence = {
        Form("The loss scale keeps falling: {0:fall} without a rise, from {1} to {2}.",
             "损失缩放持续下降：连续 {0} 次下降而没有回升，从 {1} 到 {2}。"),
        {scale.longest_fall_run, runs::Number(scale.fall_from), runs::Number(scale.fall_to)}};
    claim.strength = 0.5;
    claim.favours = {"category:loss-scale-decline", "category:loss-scale-collapse"};
    claims.push_back(std::move(claim));
    return;
  }
  if (scale.startup_skips > 0) {
    claim.id = "startup-search";
    claim.sentence = {Form("The {0:skipped step} at the beginning are the scaler's search for a "
                           "scale ({1}): no fault.",
                           "开始时跳过的 {0} 步是 scaler 在寻找缩放（{1}）：不是故障。"),
                      {scale.startup_skips, moves}};
    claim.strength = 0.5;
    claim.opposes = {"category:loss-scale-decline", "category:loss-scale-collapse"};
    claims.push_back(std::move(claim));
    return;
  }
  return;
}

}  // namespace mpnanny::diagnosis
