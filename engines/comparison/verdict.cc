// The rules behind compare_runs' verdict. docs/compare_runs.md lists them.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engines/comparison/comparison.h"
#include "engines/diagnosis/summary/stability.h"
#include "engines/runs/alerts.h"
#include "engines/runs/show.h"

namespace mpnanny::compare_runs {
namespace {

using runs::Number;
using runs::Status;

// Fewer values than this in the last window say nothing of their own scatter.
constexpr size_t kLeastWindow = 3;
// b must have come this far of a's way to be its equal.
constexpr double kLeastShare = 0.9;
// Less than this share of what a gained is standing still.
constexpr double kStalledShare = 0.1;
// A reference that has come to nearly zero cannot be a measure: of its whole way then.
constexpr double kLeastScale = 1e-3;
constexpr const char* kNonFiniteAlerts[] = {"NAN", "INF", "LOSS_NAN"};

std::string Percent(double share) {
  char text[40];
  const double percent = 100 * std::fabs(share);
  std::snprintf(text, sizeof(text), percent < 0.1 && percent > 0 ? "%.2g %%" : "%.3g %%", percent);
  return text;
}

struct Reasons {
  std::vector<std::string> bad, doubts, running, good;
};

// "2 ERROR alerts: NAN from step 5, INF from step 6"; "" if there is none of them.
std::string ErrorAlerts(const run_summary::Summary& s, bool non_finite) {
  std::string list;
  int64_t count = 0;
  for (const run_summary::AlertGroup& group : s.alerts) {
    if (runs::SeverityRank(group.severity) != 0) continue;
    const bool is_non_finite = std::find(std::begin(kNonFiniteAlerts), std::end(kNonFiniteAlerts),
                                         group.type) != std::end(kNonFiniteAlerts);
    if (is_non_finite != non_finite) continue;
    count += group.count;
    list += (list.empty() ? "" : ", ") + runs::Name(group.type) + " from step " +
            std::to_string(group.first_step);
    if (!group.layers.empty()) list += " in " + runs::Name(group.layers.front());
  }
  return count == 0 ? "" : runs::Count(count, "ERROR alert") + " (" + list + ")";
}

void JudgeSoundness(const runs::Run& a, const runs::Run& b, const Course& course, Reasons& why) {
  const run_summary::Summary& s = course.b;
  if (s.nonfinite_losses > 0) {
    why.bad.push_back("b's loss is not finite in " + runs::Count(s.nonfinite_losses, "step") +
                      ", first at step " + std::to_string(*s.first_nonfinite_loss) + "; a's in " +
                      std::to_string(course.a.nonfinite_losses) + ".");
  }
  if (const std::string alerts = ErrorAlerts(s, true); !alerts.empty()) {
    why.bad.push_back("b has " + alerts + ": values that are not finite.");
  }
  if (b.status == Status::kException || b.status == Status::kKilled) {
    why.bad.push_back(
        std::string("b was interrupted: it ") +
        (b.status == Status::kException ? "ended with an exception" : "was killed or went away") +
        (s.last_step ? " after step " + std::to_string(*s.last_step) : "") + ".");
  }
  const run_summary::ScaleState scale = run_summary::JudgeScale(s);
  if (scale == run_summary::ScaleState::kCollapsed) {
    why.bad.push_back("b's loss scale collapsed to " + Number(s.scale_last) + " and " +
                      runs::Count(s.skipped_steps, "step") + " were skipped: it stands still.");
  } else if (run_summary::TooManySkips(s)) {
    (s.skipped_at_end > run_summary::kStartupSkips / 2 ? why.bad : why.doubts)
        .push_back("b skipped " + runs::Count(s.skipped_steps, "optimizer step") + " of " +
                   std::to_string(s.steps) + run_summary::SkipsApart(s).English() + ", the last " +
                   std::to_string(s.skipped_at_end) + " without a break.");
  } else if (scale == run_summary::ScaleState::kDeclining) {
    why.doubts.push_back("b's loss scale keeps falling: " + Number(s.scale_first) + " at first, " +
                         Number(s.scale_last) + " at the end.");
  }
  if (const std::string alerts = ErrorAlerts(s, false); !alerts.empty()) {
    why.doubts.push_back("b has " + alerts + ".");
  }
  if (course.a.stable == false) {
    why.doubts.push_back("The reference a is not sound itself: " + course.a.reasons.front());
  } else if (a.status == Status::kException || a.status == Status::kKilled) {
    why.good.push_back(std::string("The reference a was interrupted (") +
                       runs::StatusName(a.status) +
                       "); its numbers are sound, and the runs are compared up to there.");
  }
}

void JudgeEvaluations(const Comparison& c, Reasons& why) {
  const runs::Evaluations &a = c.evaluations_a, &b = c.evaluations_b;
  if (b.nonfinite == 0) return;
  why.bad.push_back("b's evaluation loss (" + runs::Name(b.name) + ") is not finite in " +
                    std::to_string(b.nonfinite) + " of " + runs::Count(b.count, "evaluation") +
                    ", first at step " + std::to_string(b.first_bad.value_or(0)) + "; a's in " +
                    std::to_string(a.nonfinite) + " of " + std::to_string(a.count) + ".");
}

// What b is by itself. A reference that is no better takes the weight from it.
void JudgeAlone(const Diagnoses& diagnoses, Reasons& why) {
  const std::string& verdict = diagnoses.b.verdict;
  if (verdict != "broken" && verdict != "degraded") return;
  const bool same = diagnoses.a.verdict == verdict;
  (same                  ? why.good
   : verdict == "broken" ? why.bad
                         : why.doubts)
      .push_back("diagnose_run calls b " + verdict + (same ? ", as it calls a" : "") + ": " +
                 diagnoses.b.headline);
}

void JudgeGradientPath(const Comparison& c, Reasons& why) {
  if (!c.norm_factor) return;
  const NormFactor& f = *c.norm_factor;
  std::string text = "At step " + std::to_string(f.step) + " the losses are equal (a " +
                     Number(f.loss_a) + ", b " + Number(f.loss_b) +
                     ") and the gradient norms are not: a " + Number(f.norm_a) + ", b " +
                     Number(f.norm_b);
  text += f.steps > 1 ? ", and over " + runs::Count(f.steps, "step") + " b's is " +
                            Number(f.factor, 3) + " times a's (median)."
                      : ", " + Number(f.factor, 3) + " times a's.";
  // A norm that is printed before unscaling follows the scale.
  if (f.scale_ratio != 1 && std::fabs(std::log(f.factor / f.scale_ratio)) < 0.05) {
    why.doubts.push_back(text +
                         " That is the factor between their loss scales: one of the two "
                         "logs the norm of gradients that are still scaled.");
    return;
  }
  why.bad.push_back(
      text +
      " So the gradient path differs, and not the forward pass; no rounding makes this factor. "
      "Look at how gradients are reduced over ranks and micro-batches, at what the loss is divided "
      "by, and whether one of the two logs its norm after clipping.");
}

void TellSpikes(const Comparison& c, Reasons& why) {
  for (const auto& [name, spike] :
       {std::pair("loss", &c.loss_spike), std::pair("gradient norm", &c.norm_spike)}) {
    if (!*spike) continue;
    const CurveSpike& s = **spike;
    const bool of_b = s.b > s.a;
    why.good.push_back(
        std::string(of_b ? "b" : "a") + "'s " + name + " has a spike that " + (of_b ? "a" : "b") +
        "'s has not: at step " + std::to_string(s.step) + " a " + Number(s.a) + ", b " +
        Number(s.b) + " (" + Number(of_b ? s.b / s.a : s.a / s.b, 3) + " times" +
        (s.steps > 1 ? "; " + runs::Count(s.steps, "step") + " from " + std::to_string(s.first_step)
                     : "") +
        "), beyond the noise of a step.");
  }
}

void JudgeLength(const runs::Run& a, const runs::Run& b, const Course& course, Reasons& why) {
  const auto range = [](const run_summary::Summary& s) {
    return s.first_step ? std::to_string(*s.first_step) + " to " + std::to_string(*s.last_step)
                        : std::string("none");
  };
  if (course.a.steps == 0 || course.b.steps == 0) {
    why.doubts.push_back(std::string("No step was recorded in ") +
                         (course.a.steps > 0   ? "b"
                          : course.b.steps > 0 ? "a"
                                               : "either run") +
                         " (within the steps asked for).");
  } else if (course.common_steps == 0) {
    why.doubts.push_back("The runs have no step in common: a has steps " + range(course.a) +
                         ", b " + range(course.b) + ".");
  } else if (b.status != Status::kRunning && *course.b.last_step < *course.a.last_step) {
    const double done = static_cast<double>(*course.b.last_step - *course.a.first_step + 1);
    const double all = static_cast<double>(*course.a.last_step - *course.a.first_step + 1);
    const std::string text = "b ended at step " + std::to_string(*course.b.last_step) +
                             ", a went on to step " + std::to_string(*course.a.last_step) +
                             "; compared up to where both are.";
    (done < kLeastShare * all ? why.doubts : why.good).push_back(text);
  }
  for (const auto& [run, name, summary] :
       {std::tuple(&a, "a", &course.a), std::tuple(&b, "b", &course.b)}) {
    if (run->status != Status::kRunning) continue;
    why.running.push_back(
        std::string(name) + " still trains" +
        (summary->last_step ? " (step " + std::to_string(*summary->last_step) + " so far)" : "") +
        ": its final figure is not known.");
  }
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
    if (!ending) return std::nullopt;
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

void JudgeFinal(const Options& options, const Comparison& c, const Final& final, Reasons& why) {
  std::string text = "Final " + final.metric;
  if (final.first_step) {
    text += *final.first_step == *final.last_step
                ? " (step " + std::to_string(*final.last_step) + ")"
                : " (mean of steps " + std::to_string(*final.first_step) + " to " +
                      std::to_string(*final.last_step) + ")";
  }
  text += ": a " + Number(final.a) + ", b " + Number(final.b) + "; b is " +
          (final.worse == 0 ? "equal"
                            : Percent(final.worse) + (final.worse > 0 ? " worse" : " better"));
  if (final.uncertainty > 0) text += " (± " + Percent(final.uncertainty) + ")";
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
  if (final.worse < -options.not_acceptable) {
    why.good.push_back(
        "b is better by more than precision explains: are data, loss and schedule the same?");
  }
}

// Does b's loss go where a's goes?
void JudgeConvergence(const Options& options, const Comparison& c, Reasons& why) {
  if (!c.loss_ending || c.loss_ending->last.count < kLeastWindow) return;
  const Ending& e = *c.loss_ending;
  const int sign = options.higher_is_better && options.metric == Judged::kLoss ? -1 : 1;
  const double gain_a = sign * (e.start_a - e.last.a), gain_b = sign * (e.start_b - e.last.b);
  const bool a_gains = gain_a > e.noise_a, b_gains = gain_b > e.noise_b;
  const std::string way = "a's loss went from " + Number(e.start_a) + " to " + Number(e.last.a) +
                          ", b's from " + Number(e.start_b) + " to " + Number(e.last.b);
  // One that starts where the other ends (resumed) need not gain as much.
  const bool behind = !c.final_metric || c.final_metric->worse > options.acceptable;
  if (a_gains && behind && gain_b < kStalledShare * gain_a) {
    why.bad.push_back("b is stalled: " + way + ".");
    return;
  }
  const double late_a = -sign * e.late_a, late_b = -sign * e.late_b;
  if (late_a > 2 * e.late_noise && late_b < kStalledShare * late_a) {
    why.doubts.push_back("b no longer learns while a does: from the middle to the end a gained " +
                         Number(late_a, 3) + ", b " + Number(late_b, 3) + ".");
    return;
  }
  if (b_gains) {
    why.good.push_back("b converges: " + way + ".");
  } else if (gain_b < -e.noise_b) {
    why.doubts.push_back("b does not converge: " + way + ".");
  } else if (!a_gains) {
    why.good.push_back("Neither loss moves beyond its noise: " + way + ".");
  } else {
    why.doubts.push_back("Whether b converges is within its noise: " + way + ".");
  }
}

void TellOrder(const runs::Run& a, const runs::Run& b, Reasons& why) {
  const auto low = [](const std::string& p) { return p == "fp16" || p == "bf16" || p == "fp8"; };
  if (low(a.precision) && b.precision == "fp32") {
    why.good.push_back("The reference a is the " + a.precision +
                       " run and b the fp32 one; swap them if the low-precision run is judged.");
  }
}

}  // namespace

void JudgeComparison(const runs::Run& a, const runs::Run& b, const Options& options,
                     const Diagnoses& diagnoses, Comparison& c) {
  Reasons why;
  JudgeSoundness(a, b, c.course, why);
  JudgeEvaluations(c, why);
  JudgeGradientPath(c, why);
  JudgeLength(a, b, c.course, why);
  c.final_metric = FinalOf(options, c);
  if (c.final_metric) {
    JudgeFinal(options, c, *c.final_metric, why);
  } else if (c.course.common_steps > 0) {
    why.doubts.push_back("No common step has a finite figure of both runs to judge by.");
  }
  JudgeConvergence(options, c, why);
  JudgeAlone(diagnoses, why);
  TellSpikes(c, why);
  if (c.course.b.stable && ErrorAlerts(c.course.b, true).empty() &&
      ErrorAlerts(c.course.b, false).empty()) {
    why.good.push_back("b has no ERROR alert.");
  }
  TellOrder(a, b, why);

  c.so_far = !why.bad.empty()      ? Verdict::kNotAcceptable
             : !why.doubts.empty() ? Verdict::kUndecided
                                   : Verdict::kAcceptable;
  c.verdict =
      c.so_far == Verdict::kAcceptable && !why.running.empty() ? Verdict::kUndecided : c.so_far;
  for (const auto* list : {&why.bad, &why.running, &why.doubts, &why.good}) {
    c.reasons.insert(c.reasons.end(), list->begin(), list->end());
  }
}

}  // namespace mpnanny::compare_runs
