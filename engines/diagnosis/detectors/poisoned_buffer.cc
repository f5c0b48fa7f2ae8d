#include <algorithm>
#include <cmath>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

// A running mean or variance moves by a tenth of the batch's at a time (momentum 0.1): a factor of
// hundred between samples is a batch thousands of times out of the ordinary.
constexpr double kPoisoned = 100;

bool IsRunning(const std::string& name) {
  return NameHas(name, {"running_mean", "running_var", "running_std"});
}

const SeenAlert* FirstBufferAlert(const Facts& facts) {
  for (const SeenAlert& alert : facts.alerts) {
    if ((alert.row.type == AlertType::kNan || alert.row.type == AlertType::kInf) &&
        IsRunning(alert.layer)) {
      return &alert;
    }
  }
  return nullptr;
}

}  // namespace

// Skipping the step keeps the weights clean; the statistics were written in the forward pass.
void DetectPoisonedBuffer(const Facts& facts, std::vector<Claim>& claims) {
  Claim claim;
  claim.id = "poisoned-buffer";
  claim.ground = Ground::kMeasured;
  claim.strength = 1;
  claim.fault = true;
  if (const SeenAlert* alert = FirstBufferAlert(facts)) {
    claim.sentence = {
        Form("The running statistic {0} is not finite at step {1}: a forward pass wrote it, and "
             "the scaler that skips the step does not undo that. Evaluation uses it.",
             "滑动统计量 {0} 在第 {1} 步非有限：是前向传播写入的，"
             "跳过该步的 scaler 不会撤销它。评估会用到它。"),
        {runs::Name(alert->layer), alert->row.step}};
    claim.stays = true;
    claim.place = FaultPlace{alert->row.step,
                             Phase::kForward,
                             alert->layer,
                             "buffer",
                             "",
                             Form("a running statistic that is not finite", "非有限的滑动统计量")};
    if (facts.onset) claim.place->step = std::min(claim.place->step, facts.onset->step);
    claims.push_back(std::move(claim));
    return;
  }
  for (const Series& series : facts.profile.series) {
    if (series.kind != runs::kWeight || !IsRunning(series.layer)) continue;
    for (size_t i = 0; i < series.points.size(); ++i) {
      const Measured& now = series.points[i];
      const bool bad = now.nonfinite > 0;
      claim.stays = bad;
      const bool thrown = i > 0 && now.absmax && series.points[i - 1].absmax &&
                          *now.absmax > kPoisoned * std::max(1.0, *series.points[i - 1].absmax);
      if (!bad && !thrown) continue;
      claim.sentence =
          bad ? Sentence(Form("The running statistic {0} is not finite at step {1}.",
                              "滑动统计量 {0} 在第 {1} 步非有限。"),
                         {runs::Name(series.layer), now.step})
              : Sentence(Form("The running statistic {0} was thrown from {1} to {2} at step {3}.",
                              "滑动统计量 {0} 在第 {3} 步从 {1} 突变为 {2}。"),
                         {runs::Name(series.layer), runs::Number(series.points[i - 1].absmax),
                          runs::Number(now.absmax), now.step});
      claim.place = PlaceOf(series, now.step, Phase::kForward,
                            Form("a running statistic thrown off", "突变的滑动统计量"));
      claims.push_back(std::move(claim));
      return;
    }
  }
}

}  // namespace mpnanny::diagnosis
