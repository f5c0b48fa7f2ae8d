#include <algorithm>
#include <cmath>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

using runs::Number;

// What a person sees at a glance in three to forty lines: a loss above everything before it, by
// half of their median. Below that, the noise of small batches begins.
constexpr double kJump = 1.5;
constexpr double kStillHigh = 1.25;  // of the level before: still up at the end
constexpr double kLevel = 1.1;       // of it: back
constexpr size_t kCalm = 3;          // losses back at the level that end a spike
constexpr int64_t kEarlyPart = 4;    // "early": in the first of so many parts of the record
constexpr double kNormJump = 3;      // a gradient norm that jumped with it is worth telling

struct Jumped {
  size_t at = 0;      // index of the loss
  double before = 0;  // median of those before it
};

std::optional<Jumped> FindJump(const std::vector<ShortStep>& steps) {
  std::vector<double> sorted;
  for (size_t i = 0; i < steps.size(); ++i) {
    const double loss = steps[i].loss;
    if (i > 0 && sorted.front() > 0) {
      const double median = sorted[sorted.size() / 2];
      if (loss > sorted.back() && loss >= kJump * median) return Jumped{i, median};
    }
    sorted.insert(std::upper_bound(sorted.begin(), sorted.end(), loss), loss);
  }
  // In several strides: it ends at its highest, far above where it began.
  if (steps.size() > 1 && steps.front().loss > 0 && steps.back().loss == sorted.back() &&
      steps.back().loss >= kJump * steps.front().loss) {
    return Jumped{steps.size() - 1, steps.front().loss};
  }
  return std::nullopt;
}

// The early excursion of a longer record that no other detector explains; nullptr: there is none.
// One whose gradient norm stays calm is a matter of the batches.
const Excursion* EarlyExcursion(const Facts& facts, const std::vector<Claim>& claims) {
  for (const char* explained :
       {"lr-jump", "outlier-batch", "optimizer-restarted", "scaler-restarted"}) {
    if (FindClaim(claims, explained)) return nullptr;
  }
  const Excursion* highest = nullptr;
  for (const Excursion& each : facts.turns.excursions) {
    const bool calm =
        each.norm_before && each.norm_peak && *each.norm_peak <= kNormJump * *each.norm_before;
    if (!each.early || !each.over || calm) continue;
    if (!highest || each.peak - each.before > highest->peak - highest->before) highest = &each;
  }
  return highest;
}

void TellEarly(const Excursion& early, int64_t steps, std::vector<Claim>& claims) {
  Claim claim;
  claim.id = "loss-jumped";
  const Sentence norm =
      early.norm_before && early.norm_peak
          ? Sentence(Form(", the gradient norm from {0} to {1}", "，梯度范数从 {0} 升到 {1}"),
                     {Number(early.norm_before), Number(early.norm_peak)})
          : Sentence();
  claim.sentence = {
      early.step < steps / kEarlyPart
          ? Form("Early in the run, from step {0} on, the loss rose from about {1} to {2} (step "
                 "{3}){4}, and most of the rise was gone by step {5}.",
                 "训练早期，从第 {0} 步起，损失从约 {1} 升到 {2}（第 {3} 步）{4}"
                 "，到第 {5} 步大部分已经回落。")
          : Form("From step {0} on, the loss rose from about {1} to {2} (step {3}){4}, and most of "
                 "the rise was gone by step {5}.",
                 "从第 {0} 步起，损失从约 {1} 升到 {2}（第 {3} 步）{4}，"
                 "到第 {5} 步大部分已经回落。"),
      {early.step, Number(early.before), Number(early.peak), early.peak_step, norm, *early.over}};
  claim.strength = 0.6;
  claim.passing = true;
  claim.place = FaultPlace{
      early.step, {}, "",
      "",         "", {Form("the loss rose to {0}", "损失升到 {0}"), {Number(early.peak)}}};
  claims.push_back(std::move(claim));
}

}  // namespace

// A record with a history of its own is judged by DetectDivergence and by its spikes; what was
// early in it is told here as well.
void DetectShortJump(const Facts& facts, std::vector<Claim>& claims) {
  if (FindClaim(claims, "diverged")) return;
  const std::vector<ShortStep>& steps = facts.turns.first_losses;
  if (facts.summary.finite_losses > static_cast<int64_t>(kShortRecord)) {
    const Excursion* early = facts.onset ? nullptr : EarlyExcursion(facts, claims);
    if (early) TellEarly(*early, facts.summary.steps, claims);
    return;
  }
  const auto jump = FindJump(steps);
  if (!jump) return;
  const ShortStep& up = steps[jump->at];
  const double last = steps.back().loss;
  const auto back = std::find_if(steps.rbegin(), steps.rend(), [&](const ShortStep& each) {
    return each.loss > kLevel * jump->before;
  });
  const bool over = static_cast<size_t>(back - steps.rbegin()) >= kCalm;

  Claim claim;
  claim.id = "loss-jumped";
  Sentence norm;
  const std::optional<double> norm_before = steps[jump->at - 1].norm;
  if (up.norm && norm_before && *norm_before > 0 && *up.norm > kNormJump * *norm_before) {
    norm = {Form(", the gradient norm from {0} to {1}", "，梯度范数从 {0} 到 {1}"),
            {Number(norm_before), Number(up.norm)}};
  }
  const Sentence after =
      over
          ? Sentence(Form(", and came back by itself", "，随后自行恢复"))
          : Sentence(
                last >= kStillHigh * jump->before
                    ? Form("; it is {0} where the record ends", "；记录结束时为 {0}")
                    : Form("; it is {0} where the record ends, too soon to say whether that passes",
                           "；记录结束时为 {0}，是否会恢复尚无法判断"),
                {Number(last)});
  claim.sentence = {
      Form("The loss jumped to {0} at step {1}, from about {2} before{3}{4}. In {5:loss|losses} a "
           "batch out of the ordinary, a rate that is too high and a fault look alike.",
           "损失在第 {1} 步从约 {2} 跳到 {0}{3}{4}。在 {5} 个损失中，"
           "异常的批次、过高的学习率和故障看起来是一样的。"),
      {Number(up.loss), up.step, Number(jump->before), std::move(norm), after,
       facts.summary.finite_losses}};
  claim.strength = 0.6;
  claim.ground = Ground::kMeasured;
  claim.fault = !over && last >= kStillHigh * jump->before;
  claim.passing = over;
  claim.place = FaultPlace{
      up.step, {}, "", "", "", {Form("the loss jumped to {0}", "损失跳到 {0}"), {Number(up.loss)}}};
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnosis
