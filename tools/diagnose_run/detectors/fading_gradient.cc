#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

using runs::Form;
using runs::Sentence;

// A sigmoid passes on a quarter at most: six of them leave 1/4096, and weights under 1 less.
constexpr double kFade = 1000;
constexpr size_t kDepth = 4;  // weight matrices in a row

}  // namespace

void DetectFadingGradient(const Facts& facts, std::vector<Claim>& claims) {
  if (facts.onset || FindClaim(claims, "dead-units")) return;
  // Matrices by the order of the forward pass; their gradients in the sample where most is lost.
  std::vector<const Series*> matrices;
  bool saturating = false;
  for (const Series& series : facts.profile.series) {
    saturating = saturating || series.type == "Sigmoid" || series.type == "Tanh" ||
                 series.type == "Hardsigmoid" || series.type == "LogSigmoid";
    if (series.kind == runs::kGradient && series.last().numel > 1 &&
        series.layer.ends_with("weight") && !NameHas(series.layer, {"norm", ".ln", "bn"})) {
      matrices.push_back(&series);
    }
  }
  if (matrices.size() < kDepth) return;
  double worst = 0, first_rms = 0, last_rms = 0;
  int64_t at = 0;
  for (const Measured& point : matrices.front()->points) {
    std::vector<double> course;
    for (const Series* series : matrices) {
      const Measured* const here = series->At(point.step);
      if (here && here->rms) course.push_back(*here->rms);
    }
    if (course.size() != matrices.size() || !(course.front() > 0)) continue;
    // Growing towards the output nearly all along: a single dead layer is another matter.
    size_t rising = 0;
    for (size_t i = 1; i < course.size(); ++i) rising += course[i] > course[i - 1];
    if (rising * 4 < (course.size() - 1) * 3) continue;
    const double fade = course.back() / course.front();
    if (fade > worst) {
      worst = fade;
      first_rms = course.front();
      last_rms = course.back();
      at = point.step;
    }
  }
  if (worst < kFade) return;
  Claim claim;
  claim.id = "fading-gradient";
  claim.sentence = {
      Form("At step {0} the gradient fades from {1} ({2}) to {3} ({4}) over {5} matrices, by {6} a "
           "layer{7}. It does so in every precision.",
           "在第 {0} 步，梯度经过 {5} 个矩阵从 {1}（{2}）衰减到 {3}（{4}"
           "），每层 {6} 倍{7}。在任何精度下都是如此。"),
      {at, runs::Number(last_rms), runs::Name(matrices.back()->layer), runs::Number(first_rms),
       runs::Name(matrices.front()->layer), static_cast<int64_t>(matrices.size()),
       runs::Number(std::pow(worst, 1.0 / static_cast<double>(matrices.size() - 1)), 3),
       saturating ? Form(": saturating activations pass on a quarter at most",
                         "：饱和的激活函数最多传递四分之一")
                  : Sentence()}};
  claim.strength = saturating ? 1 : 0.7;
  claim.fault = true;
  claim.place =
      FaultPlace{matrices.front()->first().step,
                 "backward",
                 "",
                 "",
                 "",
                 {Form("a gradient that faded on its way to {0}", "在传到 {0} 的途中衰减的梯度"),
                  {runs::Name(matrices.front()->layer)}}};
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnose_run
