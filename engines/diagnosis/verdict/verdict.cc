#include "engines/diagnosis/verdict/verdict.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "engines/diagnosis/causes/causes.h"
#include "engines/diagnosis/causes/fault_place.h"
#include "engines/diagnosis/causes/measured_text.h"
#include "engines/diagnosis/facts/masked.h"
#include "engines/diagnosis/summary/stability.h"
#include "engines/diagnosis/summary/step_fold.h"
#include "engines/diagnosis/verdict/log_rows.h"
#include "engines/diagnosis/verdict/ruling.h"
#include "engines/diagnosis/verdict/scaler_rows.h"
#include "engines/runs/shadow_text.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Count;
using runs::Form;
using runs::Number;
using runs::Sentence;

constexpr int64_t kLeastSteps = 3;  // below that nothing can be called healthy
constexpr auto kLossesOfMean = static_cast<int64_t>(summary::StepFold::kTrendWindow);
// Weights of `log:` signals (knowledge/README.md): 3 all but proves its case.
constexpr double kErrorWeight = 4, kSignWeight = 2;
constexpr size_t kMostNotes = 2;
// A loss that fell by this share learns; warnings about lost gradients then do not decide.
constexpr double kLearns = 0.05;

// Warnings that matter by themselves if the loss does not fall either.
bool LearnsNothing(const Facts& facts) {
  const summary::Summary& s = facts.summary;
  const bool warned = std::any_of(facts.alerts.begin(), facts.alerts.end(), [](const SeenAlert& a) {
    return a.row.type == AlertType::kGradVanish || a.row.type == AlertType::kDeadLayer ||
           a.row.type == AlertType::kStaleUpdate ||
           (a.row.type == AlertType::kUnderflow && a.row.phase == Phase::kBackward);
  });
  if (!warned || !s.loss_start || !s.loss_end || s.finite_losses < 40) return false;
  // A loss that goes below 0 (a policy's, a likelihood's) does not measure what is left to learn.
  if (s.loss_min && *s.loss_min < 0) return false;
  return *s.loss_end > *s.loss_start - kLearns * std::fabs(*s.loss_start);
}

bool HasExplosion(const Facts& facts) {
  return std::any_of(facts.alerts.begin(), facts.alerts.end(), [&](const SeenAlert& alert) {
    return alert.row.type == AlertType::kGradExplosion && alert.row.severity == Severity::kError &&
           !(facts.summary.loss_start &&
             WasGotOver(facts, alert.row.step, *facts.summary.loss_start));
  });
}

// Whether the exception that ended the training is a documented one, or says itself what it met.
bool IsKnownFailure(const Facts& facts) {
  if (!OutOfRangeText(*facts.loop.failed).empty()) return true;
  return std::any_of(facts.log_hits.begin(), facts.log_hits.end(),
                     [](const LogHit& hit) { return hit.raised && hit.weight >= kSignWeight; });
}

// The strongest telling line of the log or the question; nullptr below the weight that matters.
const LogHit* StrongestHit(const Facts& facts, double least) {
  const LogHit* best = nullptr;
  for (const LogHit& hit : facts.log_hits) {
    if (hit.telling && hit.weight >= least && (!best || hit.weight > best->weight)) best = &hit;
  }
  return best;
}

// The same step as under "First bad": what explains the onset may have been measured before it.
Sentence FirstStepText(const Facts& facts) {
  const Onset& onset = *facts.onset;
  if (!facts.numbered && facts.summary.steps == 0) return onset.what;
  const Mechanism* mechanism = LeadingMechanism(facts);
  if (mechanism && ExplainsOnset(facts, *mechanism)) {
    const runs::ShadowFinding& lead = facts.measured.Lead(*mechanism).finding;
    const int64_t measured = lead.since.value_or(lead.step);
    if (measured < onset.step) {
      return {
          Form("first bad step {0}, and at step {1} {2}", "首个异常步为第 {0} 步，到第 {1} 步{2}"),
          {measured, onset.step, onset.what}};
    }
  }
  return {Form("first bad step {0}: {1}", "首个异常步为第 {0} 步：{1}"), {onset.step, onset.what}};
}

// What does not change the verdict and is worth a look all the same, in the same breath.
void AddNotes(const Facts& facts, const std::vector<Claim>& claims, Sentence& headline) {
  std::vector<Sentence> notes;
  for (const Claim& claim : claims) {
    if (claim.note) notes.push_back(claim.sentence);
  }
  if (facts.masked) notes.push_back(MaskedText(*facts.masked));
  for (const MeasuredFinding& each : facts.measured.minor) {
    if (notes.size() == kMostNotes) break;
    if (IsWorthALook(each.finding))
      notes.push_back(runs::FindingSentence(each.finding, each.module));
  }
  if (notes.empty()) return;
  if (notes.size() > kMostNotes) notes.resize(kMostNotes);
  Sentence all;
  for (Sentence& note : notes) all += std::move(note);
  headline += Sentence(notes.size() == 1 ? Form("One thing to look at: {0}", "有一点值得一看：{0}")
                                         : Form("Things to look at: {0}", "值得一看的有：{0}"),
                       {std::move(all)});
}

// A log whose loss is 0 to its end, and nothing in it that shows what that means.
Sentence ZeroLossText(const Facts& facts) {
  return {Form("The loss is logged as exactly 0 from step {0} to the end, in {1}, and the log does "
               "not show what that means: HF's Trainer logs a loss that is NaN as 0 "
               "(logging_nan_inf_filter), and no gradient norm above 0 stands beside it.",
               "从第 {0} 步直到结束，共 {1}，损失都记录为恰好 0，"
               "而日志没有显示其含义：HF 的 Trainer 把 NaN 损失记录为 0（"
               "logging_nan_inf_filter），旁边也没有大于 0 的梯度范数。"),
          {facts.course.zero_from, CountOfRows(facts, facts.course.zero_losses)}};
}

// Of what a whole record began and ended with, not of single steps: two means that share none. Some
// losses need not fall (a policy's, a GAN's): it is said, and judged by nobody.
bool DidNotFall(const summary::Summary& s) {
  return s.finite_losses >= 2 * kLossesOfMean && s.loss_start && s.loss_end &&
         *s.loss_end >= *s.loss_start;
}

// What is said of a fall rests on the figures that stand beside it.
Sentence WithLoss(const Facts& facts, const Sentence& headline) {
  const summary::Summary& s = facts.summary;
  if (DidNotFall(s)) {
    return {Form("{0}: {4} did not fall (a mean of {1} over its first {2} values, {3} over its "
                 "last), all finite",
                 "{0}：{4}没有下降（最初 {2} 个值的均值为 {1}，最后的均值为 {3}），全部有限"),
            {headline, Number(s.loss_start), kLossesOfMean, Number(s.loss_end), LossName(facts)}};
  }
  const Sentence text(
      Form("{0}: {3} went from {1} to {2}, all finite", "{0}：{3}从 {1} 到 {2}，全部有限"),
      {headline, Number(s.loss_first), Number(s.loss_last), LossName(facts)});
  if (!IsUndone(facts)) return text;
  return {Form("{0}, after about {1} at step {2}", "{0}，其间第 {2} 步约为 {1}"),
          {text, Number(facts.course.loss_low), facts.course.loss_rise_from.value_or(0)}};
}

// "UserWarning: …", in a log or quoted in a question.
bool IsWarning(const std::string& line) {
  return line.find("Warning") != std::string::npos && line.find("Error") == std::string::npos;
}

Sentence Followed(Form first, Sentence then) {
  Sentence text = first;
  text += std::move(then);
  return text;
}

Answer GradientsReplaced(const Asked& asked) {
  const Claim* replaced = FindClaim(asked.claims, "gradients-replaced");
  if (!replaced || asked.steps.nonfinite_losses > 0) return {};
  return Degraded(Followed(
      Form("Nothing stops the run, and it is worse for it.", "训练没有因此停下，但结果会变差。"),
      replaced->sentence));
}

Answer NonFiniteStays(const Asked& asked) {
  if (!asked.facts.onset) return {};
  const auto stays = std::find_if(asked.claims.begin(), asked.claims.end(),
                                  [](const Claim& c) { return c.stays; });
  if (stays == asked.claims.end()) return {};
  return Broken(stays->sentence);
}

Answer NonFinite(const Asked& asked) {
  const Facts& facts = asked.facts;
  if (!facts.onset) return {};
  const Sentence first = FirstStepText(facts);
  const bool over = !facts.bad_at_end && facts.good_steps_after > 0;
  const bool loss_touched = asked.steps.nonfinite_losses > 0;
  if (!over && (loss_touched || facts.bad_at_end)) {
    const bool ends = asked.steps.last_step && *asked.steps.last_step <= facts.onset->step;
    return Broken(
        {ends ? Form("The run broke, {0}. The record ends there.", "训练崩溃，{0}。记录到此为止。")
              : Form("The run broke, {0}. It did not recover.", "训练崩溃，{0}。它没有恢复。"),
         {first}});
  }
  if (loss_touched) {
    return Degraded(
        {Form("The run was hit and went on, {0}; {1:loss|losses} of {2:step} are not finite.",
              "训练受到影响后继续，{0}；{2} 步中有 {1} 步的损失非有限。"),
         {first, asked.steps.nonfinite_losses, asked.steps.steps}});
  }
  return Degraded({Form("Values left the range, {0}, while the logged loss is finite.",
                        "数值超出了范围，{0}，而记录的损失是有限的。"),
                   {first}});
}

// What the training itself ended with is quoted, with its line.
Answer KnownException(const Asked& asked) {
  if (!asked.facts.loop.failed || !IsKnownFailure(asked.facts)) return {};
  return Broken(FailedCallText(*asked.facts.loop.failed));
}

// A message of this weight is an exception of PyTorch: the training went no further. After a
// warning it does.
Answer KnownError(const Asked& asked) {
  const LogHit* error = StrongestHit(asked.facts, kErrorWeight);
  if (!error || IsWarning(error->line)) return {};
  return Broken({Form("A known error was raised: {0}", "抛出了一个已知的错误：{0}"),
                 {EscapeControl(error->line, 200)}});
}

Answer TooFewSteps(const Asked& asked) {
  const int64_t steps = asked.steps.steps;
  if (steps >= kLeastSteps || ShowsNoLossButProgress(asked.facts)) return {};
  if (const LogHit* sign = StrongestHit(asked.facts, kSignWeight)) {
    return Degraded({Form("A line tells of a known fault: {0}", "有一行表明一个已知的故障：{0}"),
                     {EscapeControl(sign->line, 200)}});
  }
  if (asked.facts.loop.failed) {
    const Sentence failed = FailedCallText(*asked.facts.loop.failed);
    return NotEstablished(
        steps == 0
            ? Sentence(Form("{0} No step was recorded before.", "{0} 此前没有记录任何一步。"),
                       {failed})
            : Sentence(Form("{0} Only {1:step} were recorded before.", "{0} 此前只记录了 {1} 步。"),
                       {failed, steps}));
  }
  return NotEstablished(steps == 0 ? Sentence(Form("No step was recorded, so nothing can be said.",
                                                   "没有记录任何一步，因此无从判断。"))
                                   : Sentence(Form("Only {0:step} recorded: too few to judge.",
                                                   "只记录了 {0} 步：太少，无法判断。"),
                                              {steps}));
}

Answer Diverged(const Asked& asked) {
  const Facts& facts = asked.facts;
  if (!FindDivergence(facts).again) return {};
  return Broken({Form("The run diverged: the loss had fallen to about {0} (step {1}) and ends at "
                      "about {2}, and the gradient norm went from about {3} to {4}.",
                      "训练发散：损失曾降到约 {0}（第 {1} 步），最后约为 {2}，"
                      "梯度范数从约 {3} 升到 {4}。"),
                 {Number(facts.course.loss_low), facts.course.loss_rise_from.value_or(0),
                  Number(asked.steps.loss_end), Number(facts.course.norm_at_low),
                  Number(facts.turns.last_norm)}});
}

Answer RoseInAll(const Asked& asked) {
  if (!LossRose(asked.facts)) return {};
  return Broken({Form("The run diverged: the loss rose from about {0} in its first steps "
                      "to about {1} in its last, in finite numbers.",
                      "训练发散：损失从最初几步的约 {0} 升到最后几步的约 {1}，"
                      "数值都是有限的。"),
                 {Number(asked.steps.loss_start), Number(asked.steps.loss_end)}});
}

Answer Exploded(const Asked& asked) {
  if (!HasExplosion(asked.facts)) return {};
  return Degraded(
      Form("Gradients exploded at times; the loss stayed finite.", "梯度有时爆炸；损失保持有限。"));
}

// What was measured and is a fault whatever the loss does; the surest first.
Answer Fault(const Asked& asked) {
  const Claim* fault = nullptr;
  for (const Claim& claim : asked.claims) {
    if (claim.fault && (!fault || claim.strength > fault->strength)) fault = &claim;
  }
  if (!fault) return {};
  return Degraded(fault->sentence);
}

Answer NotUnderstood(const Asked& asked) {
  const auto open =
      std::find_if(asked.claims.begin(), asked.claims.end(), [](const Claim& c) { return c.open; });
  if (open == asked.claims.end()) return {};
  return NotEstablished(Followed(
      Form("The figures do not say that anything is wrong, and one thing is not understood.",
           "数字并未表明有什么问题，但有一点还不清楚。"),
      open->sentence));
}

Answer DoesNotLearn(const Asked& asked) {
  if (!LearnsNothing(asked.facts)) return {};
  return Degraded({Form("The loss does not fall ({0} at first, {1} at the end) and "
                        "gradients or updates are lost.",
                        "损失没有下降（开始 {0}，结束 {1}），并且有梯度或更新丢失。"),
                   {Number(asked.steps.loss_start), Number(asked.steps.loss_end)}});
}

Answer NothingRecorded(const Asked& asked) {
  const summary::Summary& s = asked.steps;
  if (s.loss_first || s.sampled_steps > 0 || s.scale_first) return {};
  if (ShowsNoLossButProgress(asked.facts)) return {};
  if (!asked.facts.monitored) {
    return NotEstablished(
        Form("The log prints neither a training loss nor a loss scale, and nothing beside them "
             "that clearly improves.",
             "日志既没有打印训练损失，也没有打印损失缩放，其他数字也没有明显改善。"));
  }
  return NotEstablished(Form("Neither a loss nor a loss scale nor statistics were recorded.",
                             "没有记录损失、损失缩放或统计量。"));
}

Answer KnownLine(const Asked& asked) {
  const LogHit* sign = StrongestHit(asked.facts, kSignWeight);
  if (!sign) return {};
  return Degraded({Form("The figures do not decide, but a line tells of a known fault: {0}",
                        "数字不能判定，但有一行表明一个已知的故障：{0}"),
                   {EscapeControl(sign->line, 200)}});
}

Answer JumpAtTheEnd(const Asked& asked) {
  const Claim* jump = FindClaim(asked.claims, "loss-jumped");
  if (!jump || jump->passing) return {};
  return NotEstablished(Followed(
      Form("This record is too short to be called healthy.", "这份记录太短，不能称为健康。"),
      jump->sentence));
}

Answer FewLosses(const Asked& asked) {
  if (asked.steps.finite_losses >= kLeastSteps) return {};
  if (ShowsNoLossButProgress(asked.facts)) return {};
  return NotEstablished({Form("The log shows {0:loss|losses}: too few to judge.",
                              "日志只有 {0} 个损失：太少，无法判断。"),
                         {asked.steps.finite_losses}});
}

Answer ZeroLosses(const Asked& asked) {
  if (asked.facts.monitored || asked.facts.course.zero_losses < kLeastSteps) return {};
  return NotEstablished(ZeroLossText(asked.facts));
}

Answer Healthy(const Asked& asked) {
  const Facts& facts = asked.facts;
  const summary::Summary& s = asked.steps;
  const Claim* jump = FindClaim(asked.claims, "loss-jumped");
  Sentence headline(jump ? Form("No sign of lasting trouble in {0}", "{0}中没有持续问题的迹象")
                         : Form("No sign of trouble in {0}", "{0}中没有问题的迹象"),
                    {CountOfRows(facts, s.steps)});
  if (s.loss_first) headline = WithLoss(facts, headline);
  if (ShowsNoLossButProgress(facts)) {
    headline = Form("No sign of trouble in a log that prints no training loss",
                    "日志没有打印训练损失，其中没有问题的迹象");
  }
  headline = {Form("{0}.", "{0}。"), {headline}};
  if (!facts.monitored) headline += ProgressText(facts);
  if (s.nonfinite_gradient_steps > 0 && !s.scale_first && s.skipped_steps == 0) {
    headline += summary::DiscardedText(s);
  }
  if (jump) headline += jump->sentence;
  AddNotes(facts, asked.claims, headline);
  if (facts.status == runs::Status::kException || facts.status == runs::Status::kKilled) {
    headline +=
        facts.loop.failed ? FailedCallText(*facts.loop.failed)
        : facts.status == runs::Status::kException
            ? Sentence(Form(
                  "The training ended with an exception; the recorded numbers do not tell why.",
                  "训练因异常结束；所记录的数字不能说明原因。"))
        : facts.ended_by_signal
            ? Sentence(
                  Form(summary::kEndedBySignal, "训练进程被信号终止（Ctrl-C、时间限制、调度器）。"))
            : Sentence(
                  Form("The process was killed or went away; the recorded numbers do not tell why.",
                       "进程被终止或消失；所记录的数字不能说明原因。"));
  }
  return Ruling{Health::kHealthy, std::move(headline)};
}

// What the record shows without shadow steps, by the first row that answers. Each is a measurement;
// what is only recognised has no row.
struct Row {
  Answer (*answer)(const Asked&);
  bool of_logs = false;  // it is asked of a log alone
};
constexpr bool kOfLogs = true;
constexpr Row kRows[] = {{GradientsReplaced},
                         {NonFiniteStays},
                         {NonFinite},
                         {KnownException},
                         {KnownError},
                         {TooFewSteps},
                         {EndedInWords, kOfLogs},
                         {ScaleCollapsed},
                         {Diverged},
                         {RoseInAll},
                         {AnswersGone, kOfLogs},
                         {SpokenNonFinite, kOfLogs},
                         {ScaleFalls},
                         {ManySkips},
                         {SkippedInARow, kOfLogs},
                         {ManyBadGradients},
                         {Exploded},
                         {Fault},
                         {Swings, kOfLogs},
                         {LossStands, kOfLogs},
                         {ScoresStand, kOfLogs},
                         {NoGradient, kOfLogs},
                         {NotUnderstood},
                         {DoesNotLearn},
                         {NothingRecorded},
                         {KnownLine},
                         {JumpAtTheEnd},
                         {AllSkipped},
                         {FewLosses, kOfLogs},
                         {ZeroLosses},
                         {NotEarned, kOfLogs},
                         {Healthy}};

void JudgeRecord(const Facts& facts, const std::vector<Claim>& claims, Diagnosis& d) {
  const Asked asked{facts, claims, facts.summary};
  for (const Row& row : kRows) {
    if (row.of_logs && facts.monitored) continue;
    Answer answer = row.answer(asked);
    if (!answer) continue;
    d.verdict = answer->verdict;
    d.reason = std::move(answer->reason);
    return;
  }
}

// What shows a fault that losses do not, and from where on; it may be older than the first compared
// step.
Sentence SilentFault(const Facts& facts, const runs::ShadowFinding& lead) {
  const int64_t step = lead.since.value_or(lead.step);
  const Sentence shows = ComparesWithItself(lead) ? Form("the run's own values", "训练自身的数值")
                                                  : Form("shadow steps", "影子步");
  if (!ComparesWithItself(lead) && IsFirstCompared(facts, step)) {
    return {Form("Losses alone show no trouble, but {0} do, from the first compared step on (step "
                 "{1}; earlier steps were not compared).",
                 "仅看损失没有问题，但{0}从首个比较过的步（第 {1} 步；"
                 "更早的步没有比较）起显示有问题。"),
            {shows, step}};
  }
  return {lead.since ? Form("Losses alone show no trouble, but {0} do, from step {1} on.",
                            "仅看损失没有问题，但{0}从第 {1} 步起显示有问题。")
                     : Form("Losses alone show no trouble, but {0} do, first at step {1}.",
                            "仅看损失没有问题，但{0}首次在第 {1} 步显示有问题。"),
          {shows, step}};
}

}  // namespace

void Judge(const Facts& facts, const std::vector<Claim>& claims, Diagnosis& d) {
  JudgeRecord(facts, claims, d);
  const Mechanism* mechanism = LeadingMechanism(facts);
  const bool silent = d.verdict == Health::kHealthy || d.verdict == Health::kNotEstablished;
  if (!mechanism && facts.onset && facts.monitored && facts.onset->phase != Phase::kData) {
    d.reason += Form(
        "Whether it is precision is not established: no shadow step shows where it comes from.",
        "是否是精度问题尚未确定：没有影子步显示它从何而来。");
  }
  if (mechanism && silent) {
    d.verdict = Health::kDegraded;
    d.reason = SilentFault(facts, facts.measured.Lead(*mechanism).finding);
  }
  if (facts.of_file) {
    Sentence of = OfFileText(*facts.of_file);
    of += std::move(d.reason);
    d.reason = std::move(of);
  }
  d.headline = d.reason;
  if (!mechanism || (!silent && IsAfterDivergence(facts, *mechanism))) return;
  d.headline += Sentence(Form("{0}.", "{0}。"), {MeasuredTitle(facts.measured, *mechanism)});
  d.headline += PrecisionSentence(facts.measured, *mechanism);
}

}  // namespace mpnanny::diagnosis
