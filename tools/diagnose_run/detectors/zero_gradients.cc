// Gradients that are exactly 0 from the first step on, in any format: of all weights, or of some.
#include <algorithm>
#include <cmath>

#include "tools/diagnose_run/cancelled.h"
#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

constexpr int64_t kZeroSteps = 20;      // with a norm of 0, and none without
constexpr double kLearnsAnyway = 0.05;  // a loss that falls by this share learns by other means
constexpr size_t kGradientSamples = 2;
constexpr size_t kTensorsNamed = 3;

bool ZeroThroughout(const Series& series) {
  return std::all_of(series.points.begin(), series.points.end(), [](const Measured& point) {
    return point.numel > 1 && point.zeros == point.numel;
  });
}

std::string NamesOf(const std::vector<const Series*>& series) {
  std::string text;
  for (size_t i = 0; i < std::min(kTensorsNamed, series.size()); ++i) {
    text += (i > 0 ? ", " : "") + runs::Name(series[i]->layer);
  }
  if (series.size() > kTensorsNamed)
    text += " and " + std::to_string(series.size() - kTensorsNamed) + " more";
  return text;
}

// "attn1" of "attn1.cos".
std::string ModuleOf(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

// Of a loss that does not fall either. What backward passes is 0 wherever it is looked at.
void DetectAll(const Facts& facts, std::vector<Claim>& claims) {
  const Turns& turns = facts.turns;
  const run_summary::Summary& s = facts.summary;
  if (turns.lived || turns.zero_norms < kZeroSteps || turns.zero_norms < turns.norms) return;
  if (!s.loss_start || !s.loss_end) return;
  const bool falls = *s.loss_end < *s.loss_start - kLearnsAnyway * std::fabs(*s.loss_start);
  Claim claim;
  claim.id = "zero-gradients";
  claim.sentence = "The gradient norm is exactly 0 in all " + runs::Count(turns.norms, "step") +
                   " that show one, while the loss is not 0 (" + runs::Number(s.loss_first) +
                   " at first, " + runs::Number(s.loss_last) +
                   " at the end): no weight gets a gradient, from the first step on.";
  claim.strength = 0.8;
  claim.fault = !falls;
  claim.open = falls;
  claim.title = "No weight gets a gradient other than 0, from the first step on";
  claim.fix =
      "Look for what makes 0 of the gradient on its way back from the loss: the backward() of a "
      "custom autograd.Function, a mask or a weight that is 0 for every sample, a factor that "
      "begins "
      "at 0. retain_grad() on the model's output tells on which side of it.";
  claim.place = FaultPlace{turns.zero_norms_first.value_or(0),       "backward", "", "", "",
                           "a gradient of exactly 0 in every weight"};
  claims.push_back(std::move(claim));
}

void DetectSome(const Facts& facts, std::vector<Claim>& claims) {
  std::vector<const Series*> zero, empty;
  int64_t trained = 0;
  for (const Series& series : facts.profile.series) {
    if (series.points.size() < kGradientSamples) continue;
    if (series.kind == runs::kGradient) {
      ++trained;
      if (!ZeroThroughout(series)) continue;
      if (MeasuredToCancel(facts.measured, series.layer) == 1) continue;  // it gets what it is due
      zero.push_back(&series);
    }
  }
  if (zero.empty() || static_cast<int64_t>(zero.size()) == trained) return;
  for (const Series& series : facts.profile.series) {
    if (series.kind != runs::kWeight || series.type != "buffer" || !ZeroThroughout(series) ||
        series.points.size() < kGradientSamples || NameHas(series.layer, {"running_"})) {
      continue;
    }
    const std::string module = ModuleOf(series.layer);
    const bool beside = std::any_of(zero.begin(), zero.end(), [&](const Series* gradient) {
      return module.empty() || gradient->layer.starts_with(module + ".");
    });
    if (beside) empty.push_back(&series);
  }
  const Series& first = *zero.front();
  Claim claim;
  claim.id = "zero-gradients";
  claim.sentence = "The gradient of " + std::to_string(zero.size()) + " of " +
                   runs::Count(trained, "trained tensor") +
                   " is exactly 0 in every element, in every sample " + "(steps " +
                   std::to_string(first.first().step) + " to " + std::to_string(first.last().step) +
                   "): " + NamesOf(zero) + ".";
  claim.strength = empty.empty() ? 0.5 : 0.7;
  claim.title = std::to_string(zero.size()) + " of " + runs::Count(trained, "trained tensor") +
                " never get a gradient other than 0";
  if (!empty.empty()) {
    claim.sentence += " Beside them the " +
                      std::string(empty.size() == 1 ? "buffer " : "buffers ") + NamesOf(empty) +
                      (empty.size() == 1 ? " holds" : " hold") +
                      " nothing but 0: what is multiplied by that is 0, forward and backward.";
    claim.title += ", beside buffers that hold nothing but 0";
    claim.fix =
        "Compute the buffers anew after the model was made. Those that no checkpoint holds "
        "(persistent=False) are memory that nothing was written into after to_empty() or a "
        "construction on the meta device, until something fills them.";
  } else {
    claim.fix =
        "If these tensors are to train, look for what multiplies them by 0: a factor that begins "
        "at "
        "0, a mask, an expert that is never chosen, a branch whose result is not used. If not, "
        "requires_grad_(False) says so.";
  }
  // Experts that are never chosen, a loss of weight 0: alone it need not be one.
  claim.fault = !empty.empty();
  claim.open = empty.empty();
  claim.place = PlaceOf(first, first.first().step, "backward",
                        "a gradient of exactly 0 in " + runs::Name(first.layer));
  claims.push_back(std::move(claim));
}

}  // namespace

void DetectZeroGradients(const Facts& facts, std::vector<Claim>& claims) {
  // A dead unit, a batch of zeros or a norm to clip by that is infinite explains them.
  if (facts.onset || FindClaim(claims, "dead-units") || FindClaim(claims, "constant-input") ||
      FindClaim(claims, "zeroed-updates") || FindClaim(claims, "half-clip-norm")) {
    return;
  }
  DetectAll(facts, claims);
  if (!FindClaim(claims, "zero-gradients")) DetectSome(facts, claims);
}

}  // namespace mpnanny::diagnose_run
