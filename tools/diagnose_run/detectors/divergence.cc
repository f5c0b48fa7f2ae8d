#include <algorithm>
#include <cmath>

#include "tools/diagnose_run/detectors/detector.h"
#include "tools/run_summary/stability.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {

namespace {

constexpr size_t kManySpikes = 3;
constexpr double kThrown = 2;
constexpr double kNotCompared = 0.3;  // what is left where the compiled step was not compared

// Whether shadow steps ran the code as it is written, and not what torch.compile made of it.
bool OnlyEagerCompared(const Facts& facts) {
  return std::any_of(facts.measured.steps.begin(), facts.measured.steps.end(),
                     [](const runs::ShadowStep& step) { return step.eager; });
}

}  // namespace

void DetectDivergence(const Facts& facts, std::vector<Claim>& claims) {
  const Course& c = facts.course;
  const auto [loss_rose, norm_rose, rose_for_good, again] = FindDivergence(facts);
  // Bounded, but thrown about from the start on and no better for it.
  const run_summary::Summary& s = facts.summary;
  const bool thrown = !facts.onset && facts.turns.spikes.size() >= kManySpikes && s.loss_first &&
                      s.loss_end && *s.loss_end > s.loss_start.value_or(*s.loss_first) &&
                      *s.loss_end > *s.loss_first && c.loss_greatest &&
                      *c.loss_greatest > kThrown * *s.loss_first && !SpikesAreNoise(facts.turns);
  if (facts.onset ? !(loss_rose || norm_rose) : !rose_for_good && !thrown) return;
  // A NaN of the batch or of the loss function needs no divergence.
  if (facts.onset && (facts.onset->phase == "data" || facts.onset->phase == "loss") &&
      facts.onset->place == Onset::Place::kProducer && !norm_rose) {
    return;
  }
  Claim claim;
  claim.id = "diverged";
  claim.sentence = "The run diverged in finite numbers";
  if (facts.onset) claim.sentence += " before anything became non-finite";
  if (thrown && !rose_for_good) {
    claim.sentence = "The loss is thrown about and ends no lower than it began: " +
                     std::to_string(facts.turns.spikes.size()) + " spikes, the highest " +
                     runs::Number(c.loss_greatest) + ", " + runs::Number(s.loss_first) +
                     " at first and " + runs::Number(s.loss_end) + " at the end";
    claim.fault = true;
  }
  if (loss_rose || rose_for_good) {
    claim.sentence += ": the loss rose from " + runs::Number(c.loss_low) + " (step " +
                      std::to_string(c.loss_rise_from.value_or(0)) + ") to " +
                      runs::Number(c.loss_greatest);
  }
  if (norm_rose || again) {
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
  if (OnlyEagerCompared(facts)) {
    claim.strength *= kNotCompared;
    claim.sentence +=
        " The code was compared with FP64 as it is written, not as torch.compile has made it: a "
        "fault of the compiled step is not excluded. If the run stays finite without "
        "torch.compile, it is one.";
  } else if (wide) {
    claim.opposes = {"!component:learning-rate"};
  }
  claims.push_back(std::move(claim));
}

}  // namespace mpnanny::diagnose_run
