#include <algorithm>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/diagnosis/detectors/exact_step.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Sentence;

// From 256 on a square is beyond FP16: its mean is Inf, and rsqrt(Inf) is 0.
constexpr double kSquareOverflows = 255;
constexpr double kZeroShare = 0.02;  // one row of some dozens

bool IsNormalisation(const Series& series) {
  return NameHas(series.type, {"norm", "rms"}) ||
         NameHas(series.layer, {"norm", "rms", ".ln", "ln_"});
}

}  // namespace

// No NaN marks it: the forward pass goes on with zeros.
void DetectNormOutputZero(const Facts& facts, std::vector<Claim>& claims) {
  for (const Series& output : facts.profile.series) {
    if (output.kind != runs::kActivation || !IsNormalisation(output)) continue;
    const auto input = std::find_if(
        facts.profile.series.begin(), facts.profile.series.end(), [&](const Series& other) {
          return other.kind == runs::kInput && other.layer_id == output.layer_id;
        });
    const Measured* before = nullptr;
    for (const Measured& point : output.points) {
      if (point.numel > 0 && point.zeros > kZeroShare * point.numel) {
        // What went in: its own record, else the output of the module before it.
        const Series* source = input != facts.profile.series.end() ? &*input : nullptr;
        double reached = 0;
        for (const Series& other : facts.profile.series) {
          const bool feeds =
              source ? &other == source
                     : other.kind == runs::kActivation && other.position < output.position;
          if (!feeds) continue;
          for (const Measured& there : other.points) {
            if (there.step == point.step) reached = there.absmax.value_or(0);  // the nearest
          }
        }
        if (reached < kSquareOverflows) continue;
        Claim claim;
        claim.id = "norm-output-zero";
        claim.sentence = {
            Form("{0} gives zeros for {1} % of its output at step {2}{3}, and what goes in reaches "
                 "{4}: its squares overflow FP16 from 256 on, the root of their mean is infinite, "
                 "and everything is divided by it.",
                 "第 {2} 步，{0} 的输出有 {1} % 为零{3}，而其输入达到 {4}："
                 "从 256 起其平方在 FP16 中溢出，均方根为无穷大，一切都除以它。"),
            {runs::Name(output.layer), runs::Number(100 * point.zeros / point.numel, 3), point.step,
             before ? Sentence(Form(", none at step {0}", "，第 {0} 步还没有"), {before->step})
                    : Sentence(),
             runs::Number(reached)}};
        claim.strength = 1;
        claim.fault = true;
        claim.lost_in = Claim::LostIn::kForward;
        claim.place = PlaceOf(
            output,
            ExactStep(facts, before ? std::optional(before->step) : std::nullopt, point.step),
            Phase::kForward,
            {Form("zeros out of {0}", "{0} 输出的零"), {runs::Name(output.layer)}});
        claims.push_back(std::move(claim));
        return;
      }
      before = &point;
    }
  }
}

}  // namespace mpnanny::diagnosis
