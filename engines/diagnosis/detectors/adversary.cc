#include <algorithm>
#include <cmath>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

// ln 2 a side is a discriminator that knows nothing; a hundredth of it is one that is never wrong.
constexpr double kSure = 0.05;

enum class Side { kNone, kGenerator, kDiscriminator };

// The first part of the name that says so: "netD.main.0.weight".
Side SideOf(const std::string& layer) {
  size_t begin = 0;
  while (begin <= layer.size()) {
    const size_t end = std::min(layer.find('.', begin), layer.size());
    const std::string part = layer.substr(begin, end - begin);
    if (part == "D" || part == "netD" || part == "disc" ||
        NameHas(part, {"discriminator", "critic"})) {
      return Side::kDiscriminator;
    }
    if (part == "G" || part == "netG" || part == "gen" || NameHas(part, {"generator"})) {
      return Side::kGenerator;
    }
    begin = end + 1;
  }
  return Side::kNone;
}

}  // namespace

void DetectAdversary(const Facts& facts, std::vector<Claim>& claims) {
  bool generator = false, discriminator = false;
  double least = INFINITY, start = 0;
  int64_t at = 0;
  const Series* victim = nullptr;
  for (const Series& series : facts.profile.series) {
    const Side side = SideOf(series.layer);
    generator = generator || side == Side::kGenerator;
    discriminator = discriminator || side == Side::kDiscriminator;
    if (series.kind != runs::kGradient || side != Side::kGenerator || victim) continue;
    victim = &series;
    start = series.first().rms.value_or(0);
    for (const Measured& point : series.points) {
      if (point.rms && *point.rms < least) {
        least = *point.rms;
        at = point.step;
      }
    }
  }
  if (!generator || !discriminator) return;
  const summary::Summary& s = facts.summary;
  const bool sure = s.loss_start && s.loss_end && *s.loss_start > 0 && *s.loss_end >= 0 &&
                    *s.loss_end < kSure * *s.loss_start;
  const bool starved = victim && start > 0 && least < kSure * start;
  if (!sure && !starved) return;
  Claim claim;
  claim.id = "adversary-won";
  Sentence grounds;
  if (sure) {
    grounds = {Form(": the loss went from {0} to {1}", "：损失从 {0} 变为 {1}"),
               {runs::Number(s.loss_start), runs::Number(s.loss_end)}};
  }
  if (starved) {
    grounds = {sure ? Form("{0}, and the gradient of {1} from {2} to {3} (step {4})",
                           "{0}，{1} 的梯度从 {2} 变为 {3}（第 {4} 步）")
                    : Form("{0}: the gradient of {1} from {2} to {3} (step {4})",
                           "{0}：{1} 的梯度从 {2} 变为 {3}（第 {4} 步）"),
               {std::move(grounds), runs::Name(victim->layer), runs::Number(start),
                runs::Number(least), at}};
  }
  claim.sentence = {Form("A generator and a discriminator are trained against each other, and the "
                         "discriminator has won{0}. That is the game, not precision.",
                         "生成器与判别器相互对抗地训练，而判别器已经胜出{0}。"
                         "这是博弈的结果，不是精度问题。"),
                    {std::move(grounds)}};
  claim.strength = 1;
  claim.open = true;
  claim.place = FaultPlace{
      at, Phase::kBackward, "", "", "", Form("a generator without a gradient", "没有梯度的生成器")};
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnosis
