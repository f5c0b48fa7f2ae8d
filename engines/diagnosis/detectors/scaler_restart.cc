#include <algorithm>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

constexpr int64_t kSearchBegins = 3;  // steps until the search begins
constexpr int64_t kSearch = 3;        // skipped steps that make a search: growing costs one
constexpr double kHigher = 3.9;       // a scaler doubles

const Burst* SearchAfter(const Turns& turns, int64_t step) {
  for (const Burst& burst : turns.bursts) {
    if (burst.first >= step && burst.first <= step + kSearchBegins && burst.steps >= kSearch)
      return &burst;
  }
  return nullptr;
}

Claim Restart(int64_t step, double from, double to, int64_t skipped, Sentence how) {
  Claim claim;
  claim.id = "scaler-restarted";
  claim.ground = Ground::kMeasured;
  claim.sentence = {Form("At step {0} the loss scale went from {1} to {2}{3}, and {4:step} were "
                         "skipped while it searched anew: the scaler's state was not carried over.",
                         "在第 {0} 步，损失缩放从 {1} 变为 {2}{3}，"
                         "重新寻找缩放时跳过了 {4} 步：scaler 的状态没有延续。"),
                    {step, runs::Number(from), runs::Number(to), std::move(how), skipped}};
  claim.strength = 1;
  claim.fault = true;
  claim.place = FaultPlace{step, Phase::kOptimizer,
                           "",   "",
                           "",   Form("the loss scale started anew", "重新开始的损失缩放")};
  return claim;
}

}  // namespace

void DetectScalerRestart(const Facts& facts, std::vector<Claim>& claims) {
  const Turns& turns = facts.turns;
  for (const Jump& jump : turns.scale_restarts) {
    // A search right at the start of a run is a scaler's own.
    const Burst* search = SearchAfter(turns, jump.step);
    if (!search || BeginsPhase(facts.loop, jump.step)) continue;
    const bool anew =
        std::any_of(facts.loop.scalers.begin(), facts.loop.scalers.end(),
                    [&](const ScalerSeen& scaler) { return scaler.step == jump.step; });
    claims.push_back(Restart(jump.step, jump.from, jump.to, search->steps,
                             anew
                                 ? Form(", with a new GradScaler", "，使用了新的 GradScaler")
                                 : Form(", more than a scaler grows", "，超过 scaler 的增长幅度")));
    return;
  }
  const summary::Summary& s = facts.summary;
  if (!s.scale_first || !s.first_step) return;
  const Burst* search = SearchAfter(turns, *s.first_step);
  if (!search) return;
  if (facts.parent && facts.parent->last_scale &&
      *s.scale_first >= kHigher * *facts.parent->last_scale) {
    claims.push_back(
        Restart(*s.first_step, *facts.parent->last_scale, *s.scale_first, search->steps,
                Form(", where this run goes on from the one before", "，此处接续前一次训练")));
  } else if (facts.monitored && !facts.parent && *s.first_step >= kSearchBegins) {
    // (An extract of a log begins anywhere.)
    Claim claim = Restart(*s.first_step, *s.scale_first, *s.scale_first, search->steps, {});
    claim.sentence = {Form("The run begins at step {0}, so it resumes another, and its first "
                           "{1:step} were skipped while the loss scale searched anew from {2}: the "
                           "scaler's state was not carried over.",
                           "训练从第 {0} 步开始，即接续另一次训练，而损失缩放从 {2} 重新寻"
                           "找时跳过了最初的 {1} 步：scaler 的状态没有延续。"),
                      {*s.first_step, search->steps, runs::Number(s.scale_first)}};
    claim.strength = 0.8;
    claims.push_back(std::move(claim));
  }
}

}  // namespace mpnanny::diagnosis
