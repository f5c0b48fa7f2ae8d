#include <algorithm>
#include <cmath>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

constexpr double kNearGuess = 0.02;  // of the loss that guessing gives
constexpr int64_t kLeastLosses = 20;

// Classes that the model tells apart: elements of the bias of its last linear layer.
std::optional<int64_t> Outputs(const Facts& facts) {
  const Series* last = nullptr;
  for (const Series& series : facts.profile.series) {
    if (series.kind != runs::kActivation || series.type != "Linear") continue;
    if (!last || series.position > last->position) last = &series;
  }
  if (!last) return std::nullopt;
  for (const Series& series : facts.profile.series) {
    if (series.kind != runs::kWeight || series.layer != last->layer + ".bias") continue;
    if (!series.points.empty()) return static_cast<int64_t>(series.last().numel);
  }
  return std::nullopt;
}

}  // namespace

// A loss that stays where guessing evenly among the classes leaves it.
void DetectUniformGuess(const Facts& facts, std::vector<Claim>& claims) {
  const summary::Summary& s = facts.summary;
  const auto outputs = Outputs(facts);
  if (!outputs || *outputs < 2 || s.finite_losses < kLeastLosses || s.nonfinite_losses > 0) return;
  const double guess = std::log(static_cast<double>(*outputs));
  double greatest = 0;
  for (const summary::Stretch& each : s.course) greatest = std::max(greatest, each.loss_max);
  const auto is_near = [&](double loss) { return std::fabs(loss - guess) <= kNearGuess * guess; };
  if (!s.loss_min || !is_near(*s.loss_min) || !is_near(greatest)) return;
  Claim claim;
  claim.id = "uniform-guess";
  claim.sentence = {runs::Form("The loss stayed at ln({0}) = {1} from the first step to the last, "
                               "which is what guessing among {0} classes gives.",
                               "损失从第一步到最后一步都停在 ln({0}) = {1}，"
                               "这正是在 {0} 个类别中随机猜测的结果。"),
                    {*outputs, runs::Number(guess, 4)}};
  claim.note = true;
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnosis
