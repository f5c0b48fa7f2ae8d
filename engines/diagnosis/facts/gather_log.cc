#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "engines/diagnosis/facts/log_hits.h"
#include "engines/diagnosis/facts/step_pass.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

// An evaluation's loss is not finite, and the training's looks sound: HF's Trainer logs a training
// loss that is NaN as 0.
Onset OnsetOfEvaluation(const Facts& facts) {
  const runs::Evaluations& seen = facts.evaluations;
  Onset onset;
  onset.step = *seen.first_bad;
  onset.is_nan = seen.is_nan;
  onset.is_inf = !seen.is_nan;
  const runs::Sentence bad =
      seen.is_nan ? runs::Sentence("NaN") : runs::Sentence(runs::Form("infinite", "无穷大"));
  onset.what = {
      runs::Form(
          "the loss of an evaluation ({0}) is {1}, first at step {2}, in {3} of {4:evaluation}",
          "评估的损失（{0}）为{1}，首次在第 {2} 步，{4} 次评估中有 {3} 次"),
      {runs::Name(seen.name), bad, onset.step, seen.nonfinite, seen.count}};
  if (!facts.numbered && facts.summary.steps == 0) {
    onset.what = {
        runs::Form("the loss of an evaluation ({0}) is {1}, in {2} of {3:evaluation}; the "
                   "log says no steps",
                   "评估的损失（{0}）为{1}，{3} 次评估中有 {2} 次；日志没有给出步数"),
        {runs::Name(seen.name), bad, seen.nonfinite, seen.count}};
  }
  const Course& course = facts.course;
  if (course.zero_losses > 0 && course.zero_from <= onset.step) {
    onset.step = course.zero_from;
    onset.what = {runs::Form("{0}; the training loss is logged as exactly 0 from step {1} on, as "
                             "HF's Trainer logs a loss that is NaN",
                             "{0}；从第 {1} 步起，训练损失记录为恰好 0，HF 的 Trainer 就是这"
                             "样记录 NaN 损失的"),
                  {onset.what, onset.step}};
  }
  onset.how = runs::Form("a log names no layer", "日志不指明层");
  return onset;
}

// Whether a figure's name holds both: "the log shows none" is said only where no name is near.
bool HasName(const std::vector<runs::NamedSeries>& figures, std::string_view one,
             std::string_view other) {
  return std::any_of(figures.begin(), figures.end(), [&](const runs::NamedSeries& series) {
    const std::string name = LowerCase(series.name);
    return name.find(one) != std::string::npos && name.find(other) != std::string::npos;
  });
}

// Where the log does not print its steps, a figure stands in the line that prints it, which need
// not be that of the step's loss.
Result<void> PlaceLeftFigures(const runs::Source& source, std::vector<LeftFigure>& all) {
  if (all.empty() || runs::LogLines(source).say_their_steps()) return {};
  for (LeftFigure& left : all) {
    MPN_TRY_ASSIGN(const auto lines, runs::ReadLinesOfFigure(source, left.name));
    for (FigurePlace* place : {&left.at_best, &left.from, &left.at_last}) {
      const auto found =
          std::lower_bound(lines.begin(), lines.end(), place->step,
                           [](const auto& point, int64_t step) { return point.first < step; });
      if (found != lines.end() && found->first == place->step) {
        place->line = static_cast<int64_t>(found->second);
      }
    }
  }
  return {};
}

}  // namespace

Result<Facts> GatherLog(const runs::Source& source, std::vector<LogHit> hits,
                        CancelToken::Clock::duration limit) {
  Facts facts;
  facts.monitored = false;
  facts.log_hits = std::move(hits);
  facts.precision = source.run.precision;
  facts.limits.assign(source.notes.begin(), source.notes.end());
  facts.numbered = source.numbered;
  facts.of_players = source.of_players;
  facts.status = source.run.status;
  MPN_TRY_ASSIGN(facts.loop, ReadLoopCalls(source));
  auto evaluations = runs::ReadEvaluations(source);
  if (!evaluations) return evaluations.error();
  facts.evaluations = *std::move(evaluations);
  MPN_TRY_ASSIGN(const auto figures, runs::ReadAllFigures(source));
  facts.left = FindLeftFigures(figures);
  MPN_TRY(PlaceLeftFigures(source, facts.left));
  facts.logged = RelateLogged(figures);
  StepPass steps(limit);
  MPN_TRY(steps.Read(source, facts));
  const StepCourse& course = steps.course();
  facts.progress = FindProgress(steps.losses(), figures);
  facts.progress.loss_name = NameOfLoss(facts.summary, figures);
  MPN_TRY_ASSIGN(facts.spoken, runs::ReadSpokenFaults(source));
  facts.alerts = course.DerivedAlerts();
  if (SpikesAreNoise(facts.turns)) {
    std::erase_if(facts.alerts,
                  [](const SeenAlert& alert) { return alert.row.type == AlertType::kLossSpike; });
  }

  if (const auto step = course.FirstBadStep()) {
    Onset onset;
    onset.step = *step;
    MPN_TRY_ASSIGN(auto row, runs::ReadStep(source, *step));
    if (course.LossIsBad() && row) {
      onset.phase = {};  // a NaN loss may come from anywhere before it
      onset.is_nan = row->flags & runs::kLossNan;
      onset.is_inf = row->flags & runs::kLossInf;
      const bool part = row->loss && std::isfinite(*row->loss);
      const runs::Sentence bad =
          onset.is_nan ? runs::Sentence("NaN") : runs::Sentence(runs::Form("infinite", "无穷大"));
      onset.what = {part ? runs::Form("a part of the loss is {0}", "损失的一部分为{0}")
                         : runs::Form("the loss is {0}", "损失为{0}"),
                    {bad}};
    } else if (course.LossIsZeroed()) {
      onset.phase = {};  // the loss may have been NaN as well
      onset.what =
          runs::Form("the gradient norm is not finite from here on, and the loss is logged as 0",
                     "从这里起梯度范数非有限，而损失记录为 0");
    } else {
      onset.phase = Phase::kBackward;
      onset.what = runs::Form("non-finite gradients from here on, every step",
                              "从这里起每一步的梯度都非有限");
    }
    onset.how = runs::Form("a log names no layer", "日志不指明层");
    facts.onset = std::move(onset);
  } else if (facts.evaluations.first_bad) {
    facts.onset = OnsetOfEvaluation(facts);
    facts.bad_at_end = facts.evaluations.bad_at_end;
  }
  if (facts.summary.steps == 0) return facts;
  if (!facts.summary.scale_first && !HasName(figures, "scale", "")) {
    facts.limits.push_back(runs::Form("The log shows no loss scale.", "日志没有显示损失缩放。"));
  }
  if (!course.SawNorm() && !HasName(figures, "grad", "norm") && !HasName(figures, "grad", "_l2") &&
      !HasName(figures, "gnorm", "")) {
    facts.limits.push_back(runs::Form("The log shows no gradient norm.", "日志没有显示梯度范数。"));
  }
  return facts;
}

}  // namespace mpnanny::diagnosis
