#include <cmath>

#include "tools/diagnose_run/detectors/detector.h"
#include "tools/run_summary/stability.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {
namespace {

// A loss that triples over its least level, or a gradient norm 30 times its median, is no noise of
// training.
constexpr double kLossRise = 3;
constexpr double kNormRise = 30;

}  // namespace

std::optional<Claim> DetectDivergence(const Facts& facts) {
  const Course& c = facts.course;
  const bool loss_rose = c.loss_low && c.loss_greatest && *c.loss_low > 0 &&
                         *c.loss_greatest > kLossRise * *c.loss_low && c.finite_losses >= 3;
  const bool norm_rose = c.norm_median && c.norm_greatest && *c.norm_median > 0 &&
                         *c.norm_greatest > kNormRise * *c.norm_median;
  const bool rose_for_good = !facts.onset && run_summary::LossRose(facts.summary);
  if (facts.onset ? !(loss_rose || norm_rose) : !rose_for_good) return std::nullopt;
  // A NaN of the batch or of the loss function needs no divergence.
  if (facts.onset && (facts.onset->phase == "data" || facts.onset->phase == "loss") &&
      facts.onset->place == Onset::Place::kProducer && !norm_rose) {
    return std::nullopt;
  }
  Claim claim;
  claim.id = "divergence";
  claim.sentence = "The run diverged in finite numbers";
  if (facts.onset) claim.sentence += " before anything became non-finite";
  if (loss_rose || rose_for_good) {
    claim.sentence += ": the loss rose from " + runs::Number(c.loss_low) + " (step " +
                      std::to_string(c.loss_rise_from.value_or(0)) + ") to " +
                      runs::Number(c.loss_greatest);
  }
  if (norm_rose) {
    claim.sentence += std::string(loss_rose || rose_for_good ? ", " : ": ") +
                      "the gradient norm from " + runs::Number(c.norm_median) + " (median) to " +
                      runs::Number(c.norm_greatest);
  }
  if (c.lr_before) claim.sentence += ", at learning rate " + runs::Number(c.lr_before);
  const bool wide = facts.precision == "fp32" || facts.precision == "bf16";
  if (facts.precision == "fp32") {
    claim.sentence += ". Everything was computed in FP32: this is not precision";
  } else if (facts.precision == "bf16") {
    claim.sentence +=
        ". BF16 has FP32's range, so no value left its range early: the range of the "
        "format is not the cause, and FP32 would most likely diverge as well";
  }
  claim.sentence += ".";
  claim.strength = wide ? 1 : InNarrowRange(facts) && facts.onset ? 0.3 : 0.6;
  claim.favours = {"component:learning-rate"};
  if (wide) {
    claim.opposes = {"!component:learning-rate"};
  }
  return claim;
}

}  // namespace mpnanny::diagnose_run
