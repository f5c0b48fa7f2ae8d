#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

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
      const auto here =
          std::find_if(series->points.begin(), series->points.end(),
                       [&](const Measured& other) { return other.step == point.step; });
      if (here != series->points.end() && here->rms) course.push_back(*here->rms);
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
  claim.sentence =
      "At step " + std::to_string(at) + " the gradient fades from " + runs::Number(last_rms) +
      " (" + runs::Name(matrices.back()->layer) + ") to " + runs::Number(first_rms) + " (" +
      runs::Name(matrices.front()->layer) + ") over " + std::to_string(matrices.size()) +
      " matrices, by " +
      runs::Number(std::pow(worst, 1.0 / static_cast<double>(matrices.size() - 1)), 3) +
      " a layer" + (saturating ? ": saturating activations pass on a quarter at most" : "") +
      ". It does so in every precision.";
  claim.strength = saturating ? 1 : 0.7;
  claim.fault = true;
  claim.place =
      FaultPlace{matrices.front()->first().step,
                 "backward",
                 "",
                 "",
                 "",
                 "a gradient that faded on its way to " + runs::Name(matrices.front()->layer)};
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnose_run
