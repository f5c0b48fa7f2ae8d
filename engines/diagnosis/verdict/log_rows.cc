#include "engines/diagnosis/verdict/log_rows.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "engines/runs/import/field.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Name;
using runs::Number;
using runs::Sentence;

constexpr size_t kQuotedBytes = 160, kNamed = 3;
constexpr int64_t kFewestNorms = 5;
// Gradients of this size move no weight that trains at a usual rate.
constexpr double kNoNorm = 1e-4;
constexpr size_t kFewestSwings = 2;

const runs::SpokenFault* FindSpoken(const Facts& facts, std::string_view fault) {
  const auto found = std::find_if(facts.spoken.begin(), facts.spoken.end(),
                                  [&](const auto& each) { return each.fault == fault; });
  return found == facts.spoken.end() ? nullptr : &*found;
}

Sentence Quoted(const runs::SpokenFault& spoken) {
  std::string_view text = spoken.text;
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \t")));
  return {Form("line {0}: \"{1}\"", "第 {0} 行：“{1}”"),
          {spoken.first_line, EscapeControl(text, kQuotedBytes)}};
}

// "a, b and 2 more".
std::string StillNames(const std::vector<Still>& all) {
  std::vector<std::string> names;
  for (const Still& each : all) {
    if (names.size() < kNamed) names.push_back(Name(each.name));
  }
  const size_t more = all.size() - names.size();
  return Join(names, ", ") + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

// Of scores that of an evaluation and with the most values, else an evaluation's loss.
const Improved* BestOf(const Progress& progress) {
  const auto most = [](const std::vector<Improved>& all) -> const Improved* {
    const auto best = std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
      const auto order = [](const Improved& each) {
        return std::pair(imports::IsAside(LowerCase(each.name)), each.count);
      };
      return order(a) < order(b);
    });
    return best == all.end() ? nullptr : &*best;
  };
  if (const Improved* score = most(progress.scores)) return score;
  return most(progress.evaluations);
}

// A score that is exactly 0 but at the beginning, where no other rises: a hard one may still be 0
// when an easier one is learnt.
const Still* ZeroToTheEnd(const Progress& progress) {
  if (!progress.scores.empty()) return nullptr;
  const auto zero = std::find_if(progress.low_scores.begin(), progress.low_scores.end(),
                                 [](const Still& each) { return each.low == 0 && each.high == 0; });
  return zero == progress.low_scores.end() ? nullptr : &*zero;
}

}  // namespace

Answer EndedInWords(const Asked& asked) {
  const Facts& facts = asked.facts;
  if (facts.loop.failed && facts.status == runs::Status::kException) {
    return Broken({Form("{0} The figures before it show nothing that is not finite.",
                        "{0} 此前的数字都是有限的。"),
                   {FailedCallText(*facts.loop.failed)}});
  }
  for (const char* fault : {"disk", "memory"}) {
    const runs::SpokenFault* spoken = FindSpoken(facts, fault);
    if (!spoken || spoken->last_step < asked.steps.last_step.value_or(0)) continue;
    return Broken({Form("The log reports at its end that a resource ran out ({0}).",
                        "日志在结尾处报告资源耗尽（{0}）。"),
                   {Quoted(*spoken)}});
  }
  return {};
}

Answer AnswersGone(const Asked& asked) {
  for (const LeftFigure& left : asked.facts.left) {
    if (left.how != LeftFigure::How::kCollapsed || !left.is_length) continue;
    return Broken(
        {Form("The policy collapsed: {0} was {1} at first and is {2} at {3}, and has been next to "
              "nothing since {4}.",
              "策略崩溃：{0} 起初为 {1}，{3}为 {2}，从{4}起几乎为零。"),
         {Name(left.name), Number(left.best, 4), Number(left.last, 4), PlaceText(left.at_last),
          PlaceText(left.from)}});
  }
  return {};
}

Answer SpokenNonFinite(const Asked& asked) {
  const runs::SpokenFault* spoken = FindSpoken(asked.facts, "nonfinite");
  if (!spoken) return {};
  return Degraded(
      {Form("The log itself reports values that are not finite, in {0:line}, the first after step "
            "{1} ({2}); the losses that it prints are finite.",
            "日志本身报告了非有限的数值，共 {0} 行，首次在第 {1} 步之后（{2}）；"
            "它打印的损失是有限的。"),
       {spoken->count, spoken->first_step, Quoted(*spoken)}});
}

Answer Swings(const Asked& asked) {
  const Facts& facts = asked.facts;
  if (facts.of_players || facts.progress.rewarded) return {};
  if (!asked.steps.loss_first || asked.steps.loss_min.value_or(-1) < 0) return {};
  const std::vector<Excursion>& all = facts.turns.excursions;
  const auto highest = std::max_element(
      all.begin(), all.end(), [](const auto& x, const auto& y) { return x.peak < y.peak; });
  // A loss that still lies near its beginning has bumps of a warm-up.
  if (all.size() < kFewestSwings || highest->peak <= *asked.steps.loss_first ||
      highest->before > *asked.steps.loss_first / 2) {
    return {};
  }
  return Degraded(
      {Form("The loss is not stable: it left its level at least {0:time}, and rose from about {1} "
            "to {2} at step {3}, above where it had begun ({4}).",
            "损失不稳定：它至少 {0} 次离开其水平，并在第 {3} 步从约 {1} 升到 "
            "{2}，高于起点（{4}）。"),
       {static_cast<int64_t>(all.size()), Number(highest->before), Number(highest->peak),
        highest->peak_step, Number(*asked.steps.loss_first)}});
}

Answer LossStands(const Asked& asked) {
  const auto& still = asked.facts.progress.still_loss;
  if (!still || asked.facts.of_players) return {};
  const Progress& progress = asked.facts.progress;
  if (!progress.scores.empty() || !progress.evaluations.empty()) return {};
  return Degraded(
      {Form("The loss does not move: from step {0} to the end it stays between {1} and {2}, in "
            "{3:value}, less than batches alone would move it.",
            "损失不再变化：从第 {0} 步到结束，{3} 个值一直在 {1} 与 {2} 之间，"
            "变化小于批次本身应有的波动。"),
       {still->from, Number(still->low, 5), Number(still->high, 5), still->count}});
}

Answer ScoresStand(const Asked& asked) {
  const Progress& progress = asked.facts.progress;
  const auto seen = static_cast<size_t>(progress.scores_seen);
  if (progress.loss && seen > 0 && progress.zero_scores.size() == seen) {
    return Degraded({Form("The loss falls, and no score follows: exactly 0 in each of {1:value} "
                          "stays {0}.",
                          "损失在下降，但没有得分随之变化：{0} 在全部 {1} 个值中恰好为 0。"),
                     {StillNames(progress.zero_scores), progress.zero_scores.front().count}});
  }
  const auto shown = static_cast<size_t>(progress.scores_shown);
  if (shown == 0 || progress.low_scores.size() < shown) return {};
  double high = 0;
  int64_t least = progress.low_scores.front().count;
  for (const Still& each : progress.low_scores) {
    high = std::max({high, std::fabs(each.low), std::fabs(each.high)});
    least = std::min(least, each.count);
  }
  return Degraded(
      {Form("No score moves: {0} stay at {1} or below, in their last {2:value} or more, whatever "
            "the loss does.",
            "没有任何得分在变化：{0} 在最后 {2} 个或更多的值中一直不高于 "
            "{1}，无论损失如何。"),
       {StillNames(progress.low_scores), Number(high, 3), least}});
}

Answer NoGradient(const Asked& asked) {
  const summary::Summary& s = asked.steps;
  const Facts& facts = asked.facts;
  if (!s.grad_norm_max || *s.grad_norm_max > kNoNorm) return {};
  if (facts.progress.Any() || facts.progress.loss || s.steps < kFewestNorms) return {};
  return Degraded(
      {Form(
           "Next to no gradient reaches the weights: the gradient norm is at most {0} in {1:logged "
           "step}, and neither the loss nor a score improves.",
           "几乎没有梯度到达权重：在 {1} 个有记录的步中，梯度范数最大为 {0}，"
           "损失和得分都没有改善。"),
       {Number(s.grad_norm_max, 3), s.steps}});
}

Answer NotEarned(const Asked& asked) {
  const Facts& facts = asked.facts;
  const Progress& progress = facts.progress;
  if (progress.ended_part) {
    const Still& part = *progress.ended_part;
    return NotEstablished({Form("No fault shows in the loss as a whole, but a part of it, {0}, is "
                                "exactly 0 from step {1} to the end, in {2:value}, after it was "
                                "not: what that part should do is not done any more.",
                                "整体损失没有故障，但其中一部分 {0} 从第 {1} 步到结束的 {2} "
                                "个值恰好为 0，而此前不是：这一部分已不再起作用。"),
                           {Name(part.name), part.from, part.count}});
  }
  if (const Still* zero = ZeroToTheEnd(progress)) {
    return NotEstablished({Form("No fault shows in the loss, but {0} is exactly 0 from step {1} to "
                                "the end, in {2:value}.",
                                "损失没有故障，但 {0} 从第 {1} 步到结束的 {2} 个值恰好为 0。"),
                           {Name(zero->name), zero->from, zero->count}});
  }
  if (progress.Any()) return {};
  Sentence text(
      Form("No fault shows in {0}, and no success either:", "{0}中没有故障，也没有成功的迹象："),
      {CountOfRows(facts, asked.steps.steps)});
  const summary::Summary& s = asked.steps;
  if (progress.rewarded || facts.of_players || s.loss_min.value_or(0) < 0) {
    text += Form("its loss is one that need not fall, and no score that rises stands beside it.",
                 "它的损失不必下降，旁边也没有上升的得分。");
  } else if (s.finite_losses < 5) {
    text += {Form("{0:loss|losses} are too few to show that it learns.",
                  "{0} 个损失太少，不足以说明它在学习。"),
             {s.finite_losses}};
  } else {
    text += {Form("the loss did not fall clearly and stay down ({0} at first, {1} at the end), and "
                  "no score or evaluation that improved stands beside it.",
                  "损失没有明显下降并保持（开始 {0}，最后 {1}），旁边也没有改善的得分或评估。"),
             {Number(s.loss_first), Number(s.loss_last)}};
  }
  return NotEstablished(std::move(text));
}

bool ShowsNoLossButProgress(const Facts& facts) {
  return !facts.monitored && facts.summary.finite_losses == 0 &&
         facts.summary.nonfinite_losses == 0 && facts.summary.skipped_steps == 0 &&
         facts.progress.Any();
}

Sentence ProgressText(const Facts& facts) {
  const Improved* best = BestOf(facts.progress);
  if (!best) return {};
  return {Form("{0} went from {1} to {2} (means over the first and the last tenth of {3:value}).",
               "{0} 从 {1} 变为 {2}（{3} 个值的前十分之一与后十分之一的均值）。"),
          {Name(best->name), Number(best->first), Number(best->last), best->count}};
}

Sentence LossName(const Facts& facts) {
  const std::string& name = facts.progress.loss_name;
  if (name.empty()) return Form("the loss", "损失");
  return {Form("the loss \"{0}\"", "损失“{0}”"), {Name(name)}};
}

Sentence OfFileText(const OfFile& of) {
  return {of.run_id == 1
              ? Form("The file is read as {0:run} one after another; this is the last (from "
                     "line {1}), and none before it is worse.",
                     "该文件按依次 {0} 次运行读取；这是最后一次（从第 {1} 行起），"
                     "之前的都不比它差。")
              : Form("The file is read as {0:run} one after another; this is the worst, "
                     "number {3} (lines {1} to {2}).",
                     "该文件按依次 {0} 次运行读取；这是最差的一次，第 {3} 次（第 {1} 至 "
                     "{2} 行）。"),
          {of.runs, of.first_line, of.last_line, of.number}};
}

}  // namespace mpnanny::diagnosis
