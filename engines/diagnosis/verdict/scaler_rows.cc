#include "engines/diagnosis/verdict/scaler_rows.h"

#include <algorithm>

#include "engines/diagnosis/summary/stability.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Number;

// Skipped steps in a row that are not a scaler's search for its scale; nullptr: there are none. A
// log has a line of each skipped step and of few others, so that shares of them mean nothing.
const Burst* LongBurst(const Turns& turns) {
  constexpr int64_t kLong = 4;  // the scale has fallen to a sixteenth
  const auto burst = std::find_if(turns.bursts.begin(), turns.bursts.end(), [](const Burst& each) {
    return !each.scalers_own && each.steps >= kLong;
  });
  return burst == turns.bursts.end() ? nullptr : &*burst;
}

}  // namespace

Answer ScaleCollapsed(const Asked& asked) {
  const summary::Summary& s = asked.steps;
  if (!asked.facts.scale.collapsed && !asked.facts.scale.stuck) return {};
  return Broken({asked.facts.scale.stuck
                     ? Form("The loss scale is stuck at {0}; {1:step} of {2} were skipped{3}.",
                            "损失缩放卡在 {0}；{2} 步中有 {1} 步被跳过{3}。")
                     : Form("The loss scale collapsed at {0}; {1:step} of {2} were skipped{3}.",
                            "损失缩放崩塌至 {0}；{2} 步中有 {1} 步被跳过{3}。"),
                 {Number(s.scale_min), s.skipped_steps, s.steps, summary::SkipsApart(s)}});
}

Answer ScaleFalls(const Asked& asked) {
  const ScaleTrack& scale = asked.facts.scale;
  if (!scale.declining) return {};
  return Degraded({Form("The loss scale keeps falling: from {0} to {1} without a rise.",
                        "损失缩放持续下降：从 {0} 到 {1}，从未回升。"),
                   {Number(scale.fall_from), Number(scale.fall_to)}});
}

Answer ManySkips(const Asked& asked) {
  const summary::Summary& s = asked.steps;
  if (!summary::TooManySkips(s)) return {};
  return Degraded({Form("{0:optimizer step} of {1} were skipped{2}, more than a scaler costs.",
                        "{1} 步中有 {0} 次优化器更新被跳过{2}，多于 scaler 的正常代价。"),
                   {s.skipped_steps, s.steps, summary::SkipsApart(s)}});
}

Answer SkippedInARow(const Asked& asked) {
  const Burst* burst = LongBurst(asked.facts.turns);
  if (!burst) return {};
  return Degraded({Form("{0:optimizer step} in a row were skipped from step {1} on, in "
                        "the middle of the training.",
                        "在训练中途，从第 {1} 步起连续 {0} 次优化器更新被跳过。"),
                   {burst->steps, burst->first}});
}

Answer ManyBadGradients(const Asked& asked) {
  if (!summary::TooManyBadGradients(asked.steps)) return {};
  return Degraded({Form("Gradients were not finite in {0:step} of {1}, more than a search "
                        "for a loss scale costs.",
                        "{1} 步中有 {0} 步的梯度非有限，多于寻找损失缩放的正常代价。"),
                   {asked.steps.nonfinite_gradient_steps, asked.steps.steps}});
}

Answer AllSkipped(const Asked& asked) {
  const summary::Summary& s = asked.steps;
  if (s.skipped_steps != s.steps || s.steps == 0) return {};
  if (s.scale_last && *s.scale_last <= 1) {
    return Broken(
        {Form("Every one of {0:step} recorded was skipped, and the loss scale is down to {1}.",
              "所记录的 {0} 步全部被跳过，损失缩放已降到 {1}。"),
         {s.steps, Number(s.scale_last)}});
  }
  if (s.scale_last) {
    return NotEstablished(
        {Form("All {0:step} recorded were skipped: the scaler found no scale yet, it is at {1}.",
              "所记录的 {0} 步全部被跳过：scaler 还没有找到合适的缩放，"
              "目前为 {1}。"),
         {s.steps, Number(s.scale_last)}});
  }
  return NotEstablished({Form("All {0:step} recorded were skipped: the scaler found no scale yet.",
                              "所记录的 {0} 步全部被跳过：scaler 还没有找到合适的缩放。"),
                         {s.steps}});
}

}  // namespace mpnanny::diagnosis
