// Numbers that a log prints and that do not fit together (facts/logged.h): arithmetic, and what it
// may come of. None of it makes a verdict.
#include <cmath>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Name;
using runs::Number;
using runs::Sentence;

constexpr double kSureOfLogged = 0.4;
constexpr int64_t kFromTheStart = 10;  // but for the first of so many parts of the record
constexpr int64_t kLong = 100;

Claim ClaimOf(const char* sign) {
  Claim claim;
  claim.id = sign;
  claim.ground = Ground::kRecognised;
  claim.strength = kSureOfLogged;
  claim.note = true;
  return claim;
}

Claim ClaimOf(const PerplexityApart& p) {
  Claim claim = ClaimOf("logged-perplexity");
  const double exponential = std::exp(p.loss_there);
  const Sentence numbers(
      Form("At step {0} the log prints {1} = {2} and {3} = {4}, and exp({4}) is {5}: they are not "
           "one average. Over {6:step} that have both, ln({1}) is {7} {8} {3} (median).",
           "在第 {0} 步，日志给出 {1} = {2}、{3} = {4}，而 exp({4}) 为 {5}：两者不是同一个平均。"
           "在同时有两者的 {6} 步中，ln({1}) 比 {3} {8} {7}（中位数）。"),
      {p.step, Name(p.perplexity), Number(p.shown), Name(p.loss), Number(p.loss_there),
       Number(exponential), p.steps, Number(std::fabs(p.apart), 3),
       p.apart > 0 ? Sentence(Form("above", "高")) : Sentence(Form("below", "低"))});
  claim.sentence = numbers;
  claim.sentence +=
      p.apart > 0
          ? Sentence(Form("A mean of the exponentials of single batches lies above the exponential "
                          "of the mean; so does one over other tokens, and a loss that was divided "
                          "once more.",
                          "各批指数的平均高于平均的指数；在另一些词元上的平均，或多除了一次的损失，"
                          "也会如此。"))
          : Sentence(Form("A loss that holds more than the cross-entropy (label smoothing, an "
                          "auxiliary loss, a sum over micro-batches) lies above ln(perplexity).",
                          "若损失除交叉熵外还含有别的项（标签平滑、辅助损失、对微批求和），"
                          "就会高于 ln(困惑度)。"));
  claim.title =
      Form("Perplexity and loss in the log do not belong together", "日志中的困惑度与损失对不上");
  claim.fix = Form(
      "Compute both from one sum of token losses and one count of tokens: "
      "perplexity = exp(sum / tokens).",
      "用同一个词元损失之和与同一个词元数计算两者：困惑度 = exp(和 / 词元数)。");
  return claim;
}

Claim ClaimOf(const RestsAtGuess& g, int64_t losses) {
  Claim claim = ClaimOf("uniform-guess");
  const double guess = std::log(static_cast<double>(g.classes));
  const Sentence which =
      g.named_by.empty()
          ? Sentence()
          : Sentence(Form(" ({0} in the log)", "（日志中的 {0}）"), {Name(g.named_by)});
  claim.sentence = {
      Form("{0} rests at {1} (scatter {2}) over {3:logged value} from step {4} to the end, and "
           "ln({5}) = {6}{7}: that is the loss of a model that gives each of {5} classes the same "
           "probability. It has learned nothing that shows in the loss.",
           "{0} 从第 {4} 步到结束的 {3} 个记录值停在 {1}（离散 {2}），而 ln({5}) = {6}{7}：这正是"
           "给 {5} 个类别以相同概率的模型的损失。从损失看，它什么也没有学到。"),
      {Name(g.loss), Number(g.mean), Number(g.scatter, 2), g.losses, g.from, g.classes,
       Number(guess), which}};
  // From the beginning on, and longer than a record that tells little anyway: such a run is not
  // called healthy.
  claim.open = g.losses >= kLong && g.losses * kFromTheStart >= losses * (kFromTheStart - 1);
  claim.title = Form("The loss rests where guessing all classes alike puts it",
                     "损失停在对所有类别一视同仁地猜测的水平");
  claim.fix = Form(
      "Look whether gradients reach the weights (requires_grad, a detached output, a "
      "learning rate of 0), whether labels belong to their inputs, and whether logits "
      "are zeroed or normalised away before the loss.",
      "检查梯度是否到达权重（requires_grad、被 detach 的输出、为 0 的学习率），标签与"
      "输入是否对应，以及 logits 是否在损失之前被置零或归一化掉。");
  return claim;
}

Claim ClaimOf(const OnGrid& g) {
  Claim claim = ClaimOf("logged-grid");
  const std::string format = g.bf16 ? "BF16" : "FP16";
  claim.sentence = {
      Form(
          "All {0:different value} of {1} that the log prints are {2} numbers (at {3} the next one "
          "is {4}); by accident that is one in 10^{5}. It was computed or stored in {2}: two "
          "losses that are nearer than {6} look the same.",
          "日志打印的 {1} 的全部 {0} 个不同的值都是 {2} 数（在 {3} 处，下一个是 {4}）；"
          "偶然如此的机会是 10^{5} 分之一。它是以 {2} 计算或存放的："
          "相差小于 {6} 的两个值看起来相同。"),
      {g.values, Name(g.name), format, Number(g.example, 6), Number(g.next, 6),
       static_cast<int64_t>(-g.log10_chance), Number(g.next - g.example, 3)}};
  claim.title = {Form("{0} is logged as a {1} number", "{0} 记录为 {1} 数"),
                 {Name(g.name), format}};
  claim.fix = Form(
      "Take the mean in FP32 before it is logged (loss.detach().float()), and look "
      "whether the loss itself is computed in 16 bits.",
      "在记录之前以 FP32 求平均（loss.detach().float()），并检查损失本身是否以 16 "
      "位计算。");
  return claim;
}

}  // namespace

void DetectLoggedNumbers(const Facts& facts, std::vector<Claim>& claims) {
  // They explain nothing that is not finite.
  if (facts.onset) return;
  for (const PerplexityApart& each : facts.logged.perplexities) claims.push_back(ClaimOf(each));
  for (const OnGrid& each : facts.logged.grids) claims.push_back(ClaimOf(each));
  if (facts.logged.guess && !facts.of_players) {
    claims.push_back(ClaimOf(*facts.logged.guess, facts.course.finite_losses));
  }
}

}  // namespace mpnanny::diagnosis
