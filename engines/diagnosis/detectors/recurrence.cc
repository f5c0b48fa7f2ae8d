#include <algorithm>
#include <cmath>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

// The gradient of recurrent weights beside that of the others: they get it from every time step.
constexpr double kDominates = 3;

bool IsRecurrent(const std::string& type, const std::string& name) {
  return type == "RNN" || type == "LSTM" || type == "GRU" || type == "RNNCell" ||
         type == "LSTMCell" || type == "GRUCell" ||
         NameHas(name, {"weight_hh", "weight_ih", "recurrent", "rnn", "hidden_to_hidden"});
}

}  // namespace

void DetectRecurrence(const Facts& facts, std::vector<Claim>& claims) {
  const Divergence diverged = FindDivergence(facts);
  const bool exploded =
      std::any_of(facts.alerts.begin(), facts.alerts.end(), [](const SeenAlert& alert) {
        return alert.row.type == AlertType::kGradExplosion &&
               alert.row.severity == Severity::kError;
      });
  const bool broken = facts.onset && (facts.onset->phase == Phase::kForward ||
                                      facts.onset->phase == Phase::kBackward);
  if (!diverged.norm && !diverged.loss && !exploded && !broken) return;
  const Series* recurrent = nullptr;
  double own = 0, others = 0;
  int64_t at = 0;
  for (const Series& series : facts.profile.series) {
    if (series.kind != runs::kGradient) continue;
    const bool is_recurrent = IsRecurrent(series.type, series.layer);
    for (const Measured& point : series.points) {
      const double absmax = point.absmax.value_or(0);
      if (!is_recurrent) {
        others = std::max(others, absmax);
      } else if (absmax > own) {
        own = absmax;
        at = point.step;
        recurrent = &series;
      }
    }
  }
  const bool made_there =
      broken && IsRecurrent(facts.onset->layer_type, facts.onset->layer) && !InNarrowRange(facts);
  if (made_there && (!recurrent || own < kDominates * others)) {
    // No sample lies near enough to compare gradients; a recurrent layer that leaves FP32's range
    // while its inputs are small has multiplied itself there.
    Claim claim;
    claim.id = "recurrent-explosion";
    claim.sentence = {Form("The first value that is not finite came out of the recurrent layer "
                           "{0}, in a format that reaches 3e38: it multiplies by the same matrix "
                           "once a time step, forward and backward.",
                           "首个非有限值来自循环层 {0}，所用格式可达 3e38："
                           "它在每个时间步都乘以同一个矩阵，前向和反向都是如此。"),
                      {runs::Name(facts.onset->layer)}};
    claim.strength = 0.9;
    claim.opposes = {"component:learning-rate"};
    claims.push_back(std::move(claim));
    return;
  }
  if (!recurrent || own < kDominates * others) return;
  Claim claim;
  claim.id = "recurrent-explosion";
  claim.sentence = {
      Form(
          "The gradient of the recurrent weights ({0}) reached {1} at step {2}, that of all others "
          "{3}: it is multiplied by the same matrix once a time step. FP32 explodes as well.",
          "循环权重（{0}）的梯度在第 {2} 步达到 {1}，"
          "其他权重的最大为 {3}：它在每个时间步都乘以同一个矩阵。"
          "FP32 同样会爆炸。"),
      {runs::Name(recurrent->layer), runs::Number(own), at, runs::Number(others)}};
  claim.strength = 1;
  claim.fault = true;
  claim.opposes = {"component:learning-rate"};
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnosis
