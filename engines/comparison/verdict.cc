// The rules behind compare_runs' verdict. docs/compare_runs.md lists them.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "engines/comparison/comparison.h"
#include "engines/comparison/reasons.h"
#include "engines/diagnosis/summary/stability.h"
#include "engines/runs/alerts.h"
#include "engines/runs/show.h"

namespace mpnanny::comparison {
namespace {

using runs::Number;
using runs::Status;

// b must have come this far of a's way to be its equal.
constexpr double kLeastShare = 0.9;
constexpr AlertType kNonFiniteAlerts[] = {AlertType::kNan, AlertType::kInf, AlertType::kLossNan};

// "2 ERROR alerts: NAN from step 5, INF from step 6"; "" if there is none of them.
std::string ErrorAlerts(const summary::Summary& s, bool non_finite) {
  std::string list;
  int64_t count = 0;
  for (const summary::AlertGroup& group : s.alerts) {
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

void JudgeSoundness(const runs::Run& a, const runs::Run& b, const Course& course, bool mended,
                    Reasons& why) {
  const summary::Summary& s = course.b;
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
  const summary::ScaleState scale = summary::JudgeScale(s);
  if (scale == summary::ScaleState::kCollapsed) {
    why.bad.push_back("b's loss scale collapsed to " + Number(s.scale_last) + " and " +
                      runs::Count(s.skipped_steps, "step") + " were skipped: it stands still.");
  } else if (summary::TooManySkips(s)) {
    (s.skipped_at_end > summary::kStartupSkips / 2 ? why.bad : why.doubts)
        .push_back("b skipped " + runs::Count(s.skipped_steps, "optimizer step") + " of " +
                   std::to_string(s.steps) + summary::SkipsApart(s).English() + ", the last " +
                   std::to_string(s.skipped_at_end) + " without a break.");
  } else if (scale == summary::ScaleState::kDeclining) {
    why.doubts.push_back("b's loss scale keeps falling: " + Number(s.scale_first) + " at first, " +
                         Number(s.scale_last) + " at the end.");
  }
  if (const std::string alerts = ErrorAlerts(s, false); !alerts.empty()) {
    why.doubts.push_back("b has " + alerts + ".");
  }
  if (mended) {
    // The sentence that b mends a names a's fault already.
  } else if (course.a.stable == false) {
    why.doubts.push_back("The reference a is not sound itself: " + course.a.reasons.front());
  } else if (a.status == Status::kException || a.status == Status::kKilled) {
    why.good.push_back(std::string("The reference a was interrupted (") + NameOf(a.status) +
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

// What b is by itself. A reference that has the same fault takes the weight from it.
void JudgeAlone(const Diagnoses& diagnoses, const std::optional<Mend>& mend, Reasons& why) {
  if (!diagnoses.b.IsBad()) return;
  const Health verdict = *diagnoses.b.verdict.verdict;
  const bool same = mend && mend->outcome == MendOutcome::kStillThere;
  (same                         ? why.good
   : verdict == Health::kBroken ? why.bad
                                : why.doubts)
      .push_back(std::string("diagnose_run calls b ") + NameOf(verdict) +
                 (!same                                    ? ""
                  : diagnoses.a.verdict.verdict == verdict ? ", as it calls a"
                                                           : ", by a's fault") +
                 ": " + diagnoses.b.verdict.headline);
}

// Where to look for a factor between gradients of one loss: what of it the two runs can have.
std::string GradientPathAdvice(const runs::Run& a, const runs::Run& b, const Diagnoses& diagnoses) {
  const RunHealth &of_a = diagnoses.a, &of_b = diagnoses.b;
  // What nobody heard may be there.
  const bool heard = of_a.heard && of_b.heard;
  std::vector<std::string> places;
  if (!heard || a.world_size > 1 || b.world_size > 1) {
    places.push_back("how gradients are reduced over ranks");
  }
  if (!heard || of_a.accumulates || of_b.accumulates) {
    places.push_back("how they are added up over micro-batches");
  }
  places.push_back("what the loss is divided by");
  places.push_back("which parameters get gradients");
  if (!heard || of_a.clips || of_b.clips) {
    places.push_back("whether one of the two logs its norm after clipping");
  }
  return "Look at " + Join(places, ", ") + ".";
}

std::string NamesOf(const std::vector<std::string>& names, int64_t all) {
  std::vector<std::string> shown;
  for (const std::string& name : names) shown.push_back(runs::Name(name));
  return Join(shown, ", ") + (static_cast<int64_t>(names.size()) < all ? " …" : "");
}

void JudgeGradientPath(const runs::Run& a, const runs::Run& b, const Comparison& c,
                       const Diagnoses& diagnoses, Reasons& why) {
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
  const bool mended = IsMended(c);
  const LayerPairs& layers = c.layers;
  if (!layers.parameters_only_a.empty() || !layers.parameters_only_b.empty()) {
    const auto only = [](const char* letter, const std::vector<std::string>& names, int64_t all) {
      return names.empty() ? std::string()
                           : std::string(" Only in ") + letter + ": " + NamesOf(names, all) + ".";
    };
    (mended ? why.good : why.doubts)
        .push_back(text + " They are the norms of other parameters." +
                   only("a", layers.parameters_only_a, layers.parameters_total_only_a) +
                   only("b", layers.parameters_only_b, layers.parameters_total_only_b));
    return;
  }
  text += " So the gradient path differs, and not the forward pass; no rounding makes this factor.";
  if (mended) {
    why.good.push_back(text + " What was changed from a to b acts there.");
  } else {
    why.bad.push_back(text + " " + GradientPathAdvice(a, b, diagnoses));
  }
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
  const auto range = [](const summary::Summary& s) {
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

void TellOrder(const runs::Run& a, const runs::Run& b, Reasons& why) {
  const auto low = [](const Word<Precision>& p) {
    return p == Precision::kFp16 || p == Precision::kBf16 || p == Precision::kFp8;
  };
  if (low(a.precision) && b.precision == Precision::kFp32) {
    why.good.push_back("The reference a is the " + std::string(a.precision.text()) +
                       " run and b the fp32 one; swap them if the low-precision run is judged.");
  }
}

}  // namespace

void JudgeComparison(const runs::Run& a, const runs::Run& b, const Options& options,
                     const Diagnoses& diagnoses, Comparison& c) {
  Reasons why;
  c.mend = JudgeMend(diagnoses.a, diagnoses.b, IsOtherModel(c.layers));
  JudgeSoundness(a, b, c.course, IsMended(c), why);
  JudgeEvaluations(c, why);
  JudgeGradientPath(a, b, c, diagnoses, why);
  JudgeLength(a, b, c.course, why);
  JudgeLosses(options, diagnoses, c, why);
  if (c.mend && !IsOtherModel(c.layers)) c.mend->text += LossesText(c);
  JudgeAlone(diagnoses, c.mend, why);
  TellSpikes(c, why);
  if (!c.printed.sentence.empty()) why.good.push_back(c.printed.sentence);
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

}  // namespace mpnanny::comparison
