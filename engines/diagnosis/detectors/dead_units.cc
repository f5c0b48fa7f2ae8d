#include <algorithm>
#include <cmath>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/diagnosis/detectors/exact_step.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

// Half of a ReLU's outputs are zero in health, sometimes 90 %. Past this nothing is left to learn
// from.
constexpr double kDead = 0.97;
constexpr int64_t kStill = 5;  // steps without any gradient, to the end

// Whether a module before it gave as many elements and not zeros: then what goes in here has passed
// something between the two. The batch itself has not.
bool FollowsLiveOutput(const Facts& facts, const Series& input) {
  return std::any_of(facts.profile.series.begin(), facts.profile.series.end(),
                     [&](const Series& output) {
                       const Measured& last = output.last();
                       return output.kind == runs::kActivation && output.type != "operator" &&
                              output.position < input.position && last.step == input.last().step &&
                              last.numel == input.last().numel && last.zeros < kDead * last.numel;
                     });
}

// What a ReLU gives: by its class, or as the input of the layer behind a functional one.
bool IsRectified(const Facts& facts, const Series& series) {
  if (series.kind == runs::kActivation) return series.type == "ReLU" || series.type == "ReLU6";
  return series.kind == runs::kInput && FollowsLiveOutput(facts, series);
}

}  // namespace

void DetectDeadUnits(const Facts& facts, std::vector<Claim>& claims) {
  // A normalisation that gives zeros feeds a ReLU zeros.
  if (facts.onset || FindClaim(claims, "norm-output-zero") || FindClaim(claims, "constant-input")) {
    return;
  }
  const Series* dead = nullptr;
  int64_t layers = 0, dead_layers = 0;
  std::optional<int64_t> since, alive;
  double share = 0;
  for (const Series& series : facts.profile.series) {
    if (series.points.size() < 2 || !IsRectified(facts, series)) continue;
    ++layers;
    const Measured& last = series.last();
    const Measured& before = series.points[series.points.size() - 2];
    if (last.numel <= 1 || last.zeros < kDead * last.numel || before.zeros < kDead * before.numel) {
      continue;
    }
    ++dead_layers;
    if (dead) continue;  // those behind get nothing
    dead = &series;
    share = last.zeros / last.numel;
    for (auto point = series.points.rbegin(); point != series.points.rend(); ++point) {
      if (point->zeros < kDead * point->numel) {
        alive = point->step;
        break;
      }
      since = point->step;
    }
  }
  if (!dead) return;
  // The gradient norm of every step tells more exactly than samples since when nothing passes.
  const Turns& turns = facts.turns;
  since = ExactStep(facts, alive, since.value_or(0));
  if (turns.zero_norms > 1 && since && *turns.zero_norms_first < *since) {
    since = turns.zero_norms_first;
  }
  Claim claim;
  claim.id = "dead-units";
  // Units that are off while gradients pass beside them are no fault by themselves.
  const bool nothing_passes = turns.lived && turns.zero_norms >= kStill;
  if (nothing_passes) claim.ground = Ground::kMeasured;
  claim.sentence = {
      Form("{0} gives zeros for {1} % of its output from step {2} on ({3} of {4:rectified layer}): "
           "the units behind it are off for every input, and no gradient passes.",
           "从第 {2} 步起，{0} 的输出有 {1} % 为零（{4} 个 ReLU 类层中的 "
           "{3} 个）：其后的单元对任何输入都不激活，梯度无法通过。"),
      {runs::Name(dead->layer), runs::Number(100 * share, 4), since.value_or(0), dead_layers,
       layers}};
  claim.strength = 1;
  claim.fault = true;
  claim.place =
      PlaceOf(*dead, since.value_or(0), Phase::kForward,
              {Form("units that are off for every input in {0}", "{0} 中对任何输入都不激活的单元"),
               {runs::Name(dead->layer)}});
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnosis
