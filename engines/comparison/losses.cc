// What the losses of two runs say of the second. docs/compare_runs.md lists the rules.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engines/comparison/reasons.h"
#include "engines/runs/show.h"

namespace mpnanny::comparison {
namespace {

using runs::Number;

// Fewer values than this in the last window say nothing of their own scatter.
constexpr size_t kLeastWindow = 3;
// Less than this share of what a gained is standing still.
constexpr double kStalledShare = 0.1;
// A reference that has come to nearly zero cannot be a measure: of its whole way then.
constexpr double kLeastScale = 1e-3;
constexpr double kManyTimes = 10;

std::string Percent(double share) {
  char text[40];
  const double percent = 100 * std::fabs(share);
  std::snprintf(text, sizeof(text), percent < 0.1 && percent > 0 ? "%.2g %%" : "%.3g %%", percent);
  return text;
}

// "12 % worse (± 3 %)"; of what is many times as much the share is no measure any more.
std::string FarFrom(const Final& final) {
  if (final.worse >= kManyTimes && final.a > 0) return Number(final.b / final.a, 3) + " times a's";
  std::string text = Percent(final.worse) + (final.worse > 0 ? " worse" : " better");
  if (final.uncertainty > 0) text += " (± " + Percent(final.uncertainty) + ")";
  return text;
}

std::optional<Final> FinalOf(const Options& options, const Comparison& c) {
  Final result;
  double scale = 0;
  const int sign = options.higher_is_better ? -1 : 1;
  if (options.metric == Judged::kGiven) {
    result.metric = "the given metric";
    result.a = *options.given_a;
    result.b = *options.given_b;
    scale = std::fabs(result.a);
  } else {
    const bool loss = options.metric == Judged::kLoss;
    const std::optional<Ending>& ending = loss ? c.loss_ending : c.norm_ending;
    if (!ending || (loss && OnlyAEndsNotFinite(c.course))) return std::nullopt;
    result.comparable = !(loss && c.loss_scales);
    result.metric = loss ? "loss" : "grad_norm";
    result.a = ending->last.a;
    result.b = ending->last.b;
    result.first_step = ending->first_step;
    result.last_step = ending->last_step;
    scale = std::max(std::fabs(result.a), kLeastScale * std::fabs(ending->start_a - result.a));
    result.uncertainty = scale > 0 ? 2 * ending->last.standard_error / scale : 0;
  }
  const double apart = sign * (result.b - result.a);
  result.worse = apart == 0 ? 0 : scale > 0 ? apart / scale : std::copysign(HUGE_VAL, apart);
  return result;
}

void JudgeFinal(const Options& options, const Comparison& c, const Diagnoses& diagnoses,
                const Final& final, Reasons& why) {
  std::string text = "Final " + final.metric;
  if (final.first_step) {
    text += *final.first_step == *final.last_step
                ? " (step " + std::to_string(*final.last_step) + ")"
                : " (mean of steps " + std::to_string(*final.first_step) + " to " +
                      std::to_string(*final.last_step) + ")";
  }
  text += ": a " + Number(final.a) + ", b " + Number(final.b);
  if (!final.comparable) {
    const ScaleApart& apart = *c.loss_scales;
    (IsMended(c) ? why.good : why.doubts)
        .push_back(text + ". No share of one tells anything of the other: at step " +
                   std::to_string(apart.step) + ", where both begin, a's loss is " +
                   Number(apart.a) + " and b's " + Number(apart.b) +
                   ", so they are two losses, or one on two scales (a sum and a mean).");
    return;
  }
  text += "; b is " + (final.worse == 0 ? "equal" : FarFrom(final));
  const std::string limits = ", acceptable up to " + Percent(options.acceptable) +
                             ", not acceptable beyond " + Percent(options.not_acceptable) + ".";
  const double least = final.worse - final.uncertainty, most = final.worse + final.uncertainty;
  if (final.worse > options.not_acceptable && least > options.acceptable) {
    why.bad.push_back(text + limits);
  } else if (final.worse <= options.acceptable && most <= options.not_acceptable) {
    why.good.push_back(text + limits);
  } else if (final.worse > options.acceptable && final.worse <= options.not_acceptable) {
    why.doubts.push_back(text + limits);
  } else {
    why.doubts.push_back(text + limits +
                         " The scatter is too large to tell; give a longer `window`.");
  }
  const std::optional<Ending>& ending =
      options.metric == Judged::kGradNorm ? c.norm_ending : c.loss_ending;
  if (ending && options.metric != Judged::kGiven && ending->last.count < kLeastWindow) {
    why.doubts.push_back("Only " + runs::Count(static_cast<int64_t>(ending->last.count), "value") +
                         " at the end can be compared: too few to know their scatter.");
  }
  if (c.tensors.same_weights == false && final.worse > options.acceptable) {
    why.good.push_back(
        "The runs start from other weights: one pair does not tell precision from the luck of a "
        "seed. Run both with one seed, or a with a second one.");
  }
  // Of a reference that is broken that is no wonder.
  if (final.worse < -options.not_acceptable && !diagnoses.a.IsBad() && c.course.a.stable != false) {
    why.good.push_back(
        "b is better by more than precision explains: are data, loss and schedule the same?");
  }
}

// Nothing of a's end can be set beside b's: how b goes by itself.
void JudgeAfterNonFinite(const Course& course, Reasons& why) {
  const summary::Summary &a = course.a, &b = course.b;
  std::string text = "a's loss is not finite in " + runs::Count(a.nonfinite_losses, "step") +
                     ", from step " + std::to_string(a.first_nonfinite_loss.value_or(0)) +
                     " on, and at its end; b's is finite ";
  text += b.nonfinite_losses == 0 ? "in all " + runs::Count(b.steps, "step") : "at its end";
  if (b.loss_start && b.loss_end) {
    text += " and went from " + Number(b.loss_start) + " to " + Number(b.loss_end) +
            " (means of up to 20 steps)";
  }
  text += ". That is the comparison: a has no final loss.";
  why.good.push_back(text);
}

// Does b's loss go where a's goes?
void JudgeConvergence(const Options& options, const Comparison& c, Reasons& why) {
  if (!c.loss_ending || c.loss_ending->last.count < kLeastWindow) return;
  const Ending& e = *c.loss_ending;
  const int sign = options.higher_is_better && options.metric == Judged::kLoss ? -1 : 1;
  // Of losses on two scales each is measured by where it began.
  const double unit_a = c.loss_scales ? std::fabs(e.start_a) : 1;
  const double unit_b = c.loss_scales ? std::fabs(e.start_b) : 1;
  const double gain_a = sign * (e.start_a - e.last.a) / unit_a;
  const double gain_b = sign * (e.start_b - e.last.b) / unit_b;
  const bool a_gains = gain_a > e.noise_a / unit_a, b_gains = gain_b > e.noise_b / unit_b;
  const std::string way = "a's loss went from " + Number(e.start_a) + " to " + Number(e.last.a) +
                          ", b's from " + Number(e.start_b) + " to " + Number(e.last.b);
  // One that starts where the other ends (resumed) need not gain as much.
  const bool behind = !c.final_metric || c.final_metric->worse > options.acceptable;
  if (a_gains && (behind || c.loss_scales) && gain_b < kStalledShare * gain_a) {
    why.bad.push_back("b is stalled: " + way + ".");
    return;
  }
  // One that is far below the other already has less to gain: it has converged. How much is left
  // to gain on another scale is not known.
  const bool ahead = c.final_metric && c.final_metric->worse < -options.acceptable;
  const double late_a = -sign * e.late_a, late_b = -sign * e.late_b;
  if (!ahead && !c.loss_scales && late_a > 2 * e.late_noise && late_b < kStalledShare * late_a) {
    why.doubts.push_back("b no longer learns while a does: from the middle to the end a gained " +
                         Number(late_a, 3) + ", b " + Number(late_b, 3) + ".");
    return;
  }
  if (b_gains) {
    why.good.push_back("b converges: " + way + ".");
  } else if (gain_b < -e.noise_b / unit_b) {
    why.doubts.push_back("b does not converge: " + way + ".");
  } else if (!a_gains) {
    why.good.push_back("Neither loss moves beyond its noise: " + way + ".");
  } else {
    why.doubts.push_back("Whether b converges is within its noise: " + way + ".");
  }
}

}  // namespace

std::string LossesText(const Comparison& c) {
  if (OnlyAEndsNotFinite(c.course)) {
    return " Loss at the end: a " + Number(c.course.a.loss_last) + ", b " +
           Number(c.course.b.loss_end) + ".";
  }
  if (!c.final_metric) return "";
  return " At the end, " + c.final_metric->metric + ": a " + Number(c.final_metric->a) + ", b " +
         Number(c.final_metric->b) + (c.final_metric->comparable ? "." : ", on two scales.");
}

void JudgeLosses(const Options& options, const Diagnoses& diagnoses, Comparison& c, Reasons& why) {
  c.final_metric = FinalOf(options, c);
  const bool no_end = OnlyAEndsNotFinite(c.course);
  if (c.final_metric) {
    JudgeFinal(options, c, diagnoses, *c.final_metric, why);
  } else if (c.course.common_steps > 0 && !no_end) {
    why.doubts.push_back("No common step has a finite figure of both runs to judge by.");
  }
  if (no_end) {
    JudgeAfterNonFinite(c.course, why);
  } else {
    JudgeConvergence(options, c, why);
  }
}

}  // namespace mpnanny::comparison
