#include "engines/mismatch/words.h"

#include <algorithm>
#include <cmath>

#include "engines/mismatch/head_words.h"
#include "engines/mismatch/judge.h"
#include "engines/mismatch/place_words.h"
#include "engines/runs/show.h"

namespace mpnanny::mismatch {
namespace {

using runs::Form;
using runs::Number;
using runs::Sentence;

bool RateIsZero(std::span<const Call> calls) {
  return std::all_of(calls.begin(), calls.end(),
                     [](const Call& call) { return call.lr && *call.lr == 0; });
}

Words OfTime(const Finding& f, std::span<const Call> calls) {
  Words words;
  const Contrast& c = f.contrast;
  const bool copied = f.copied.value_or(false);
  if (f.shape == Shape::kGrows) {
    words.title = Form("The difference grows although the weights are copied each time",
                       "尽管每次都同步权重，差异仍在增长");
  } else {
    words.title = f.claimed
                      ? Form(
                            "The engine does not have the trainer's weights, although each call "
                            "says that they were copied",
                            "尽管每次调用都说明已同步权重，引擎并没有训练端的权重")
                  : copied ? Form("The engine samples from weights of an earlier update",
                                  "引擎用较早更新的权重采样")
                           : Form("The difference grows with the updates: stale weights",
                                  "差异随更新增长：权重过期");
  }
  words.measured = {
      copied
          ? Form("The difference is {0} nats (rms) right after the weights were copied and {1} in "
                 "the other updates, first in update {2}.",
                 "权重刚同步时差异（均方根）为 {0} nats，其他更新中为 {1}，首次出现在更新 {2}。")
          : Form("The difference is {0} nats (rms) at first and {1} later, from update {2} on.",
                 "差异（均方根）起初为 {0} nats，之后为 {1}，从更新 {2} 起。"),
      {Short(c.quiet), Short(c.loud), f.from}};
  if (RateIsZero(calls)) {
    words.measured += Form(
        "The learning rate is 0, so the weights did not move: it is no question of "
        "optimisation.",
        "学习率为 0，权重没有变化：这与优化无关。");
  }
  if (f.shape == Shape::kGrows || f.claimed) {
    words.meaning =
        f.claimed
            ? Form(
                  "Both sides agreed to the last digits before the first update, so code, template "
                  "and "
                  "formats are the same: what the program calls a copy comes late (a queue), "
                  "brings only a "
                  "part (an adapter, a buffer, a fused copy), or brings nothing.",
                  "第一次更新之前两端完全一致，因此代码、模板和格式相同：程序所说的同步来得太晚（队"
                  "列）、"
                  "只带来一部分（适配器、缓冲区、融合后的副本），或没有带来任何内容。")
            : Form(
                  "What differs is not the age of the weights: a part of them that is not copied "
                  "(a buffer, "
                  "an "
                  "adapter, a scale of a quantised weight), or a format whose error grows as the "
                  "weights do.",
                  "差异不在于权重的新旧：可能有一部分没有同步（缓冲区、适配器、量化权重的缩放），"
                  "或某种格式的误差随权重增大。");
    words.fix = Form("Compare a hash of every tensor of both sides after a copy.",
                     "同步之后比较两端每个张量的哈希。");
    return words;
  }
  words.meaning = Form(
      "Both sides agreed before the first update, so code, template and formats are the same: what "
      "changed since is the weights.",
      "第一次更新之前两端一致，因此代码、模板和格式相同：此后改变的是权重。");
  words.fix = Form(
      "Copy the weights to the engine before each sampling (and drop its prefix cache), or weigh "
      "tokens by their importance ratio, truncated.",
      "每次采样前把权重同步到引擎（并清空其前缀缓存），或用截断的重要性比值为 token 加权。");
  return words;
}

Words OfSize(const Judgement& judgement, const Call& call) {
  const Finding& f = judgement.finding;
  Words words;
  switch (f.shape) {
    case Shape::kNone:
      words.title = Form("Both sides agree", "两端一致");
      words.measured = {Form("They differ by {0} nats (rms): another order of FP32 sums gives as "
                             "much.",
                             "差异（均方根）为 {0} nats：与改变 FP32 求和顺序相当。"),
                        {Short(call.figures.rms)}};
      return words;
    case Shape::kRareTokens:
      words.title = Form("They differ as 16 bits do", "差异与 16 位格式相当");
      words.measured = {
          Form("The difference is that of an error of {0} in each logit, without a direction (mean "
               "{1}, rms {2}); it concerns tokens of low probability, and no document, position, "
               "sequence or update more than others. BF16 and FP16 engines must be allowed {3}.",
               "差异相当于每个 logit 有 {0} 的误差，没有方向（均值 {1}，均方根 "
               "{2}）；它只涉及低概率 token，不偏向任何文档、位置、序列或更新。BF16 和 FP16 "
               "引擎应容许 {3}。"),
          {Short(call.figures.LogitError()), Short(call.figures.mean), Short(call.figures.rms),
           Short(kLogitError16)}};
      words.meaning = Form("Rounding of the head, or of the whole pass, on one side.",
                           "一端的输出头或整个前向传播的舍入。");
      words.fix = Form(
          "None is needed. To make it smaller: head and log_softmax in FP32 on both sides; FP16 "
          "instead of BF16 for the rest. Call log_mismatch with `hidden`, `head` and `tokens` to "
          "learn what the head has of it.",
          "无需修改。若要减小：两端的输出头和 log_softmax 用 FP32，其余用 FP16 代替 BF16。给 "
          "log_mismatch 传入 `hidden`、`head` 和 `tokens` 可得知输出头占多少。");
      return words;
    case Shape::kStored:
      words.title =
          Form("One side's log-probabilities are 16-bit numbers", "一端的对数概率是 16 位数");
      words.measured = {
          Form("Every log-probability of {0} lies on the {1} grid; near −8 the next "
               "number is 0.03 (BF16) or 0.004 (FP16) away.",
               "{0}的每个对数概率都落在 {1} 网格上；在 −8 附近，相邻数相距 0.03（BF16）或 "
               "0.004（FP16）。"),
          {SideOf(f.of_trainer), f.way == "bf16" ? "BF16" : "FP16"}};
      words.meaning =
          Form("They were computed or kept in that format.", "它们以该格式计算或保存。");
      words.fix = Form("Call float() before log_softmax and keep the result in FP32.",
                       "在 log_softmax 之前调用 float()，并以 FP32 保存结果。");
      return words;
    case Shape::kNotFinite:
      words.title = Form("A log-probability is not finite", "有对数概率不是有限值");
      words.measured = {Form("{0:token} of update {1} have none that is finite on the side of {2}.",
                             "更新 {1} 中有 {0} 个 token 在{2}一侧没有有限的对数概率。"),
                        {static_cast<int64_t>(f.value), f.from, SideOf(f.of_trainer)}};
      words.meaning = Form(
          "A sampled token whose probability is 0 there: it was masked out (top-k, bad words, "
          "padded vocabulary), or log was taken of a probability that had underflowed.",
          "被采样的 token 在那里概率为 0：被屏蔽（top-k、禁用词、填充词表），"
          "或对已下溢的概率取了对数。");
      words.fix = Form("Use log_softmax instead of log(softmax), and the same masks on both sides.",
                       "用 log_softmax 代替 log(softmax)，两端使用相同的屏蔽。");
      return words;
    default:  // kOffset
      words.title =
          Form("They differ everywhere from the first update on", "从第一次更新起处处不同");
      words.measured = {
          Form("The difference is that of an error of {0} in each logit, in the first update as "
               "well, and no document, position, sequence or update has more of it than others. 16 "
               "bits explain {1}.",
               "差异相当于每个 logit 有 {0} 的误差，第一次更新时就有，且不偏向任何文档、位置、"
               "序列或更新。16 位格式可解释 {1}。"),
          {Short(call.figures.LogitError()), Short(kLogitError16)}};
      words.meaning = Form(
          "Other weights (an adapter that is not merged, a quantised copy, another checkpoint), "
          "another chat template or prompt, another activation or norm in one of the two models.",
          "权重不同（未合并的适配器、量化副本、另一个检查点）、对话模板或提示不同，"
          "或两个模型之一的激活函数或归一化不同。");
      words.fix = Form(
          "Compare token ids of one prompt, then a hash of every weight, then the hidden states "
          "layer by layer (mpnanny diff --captures).",
          "先比较一个提示的 token 编号，再比较每个权重的哈希，然后逐层比较隐藏状态（mpnanny diff "
          "--captures）。");
      return words;
  }
}

// Of a log there is one figure a step.
Words OfLog(const Judgement& judgement, std::span<const Call> calls) {
  const Call &first = calls.front(), &worst = calls[judgement.shown], &last = calls.back();
  Words words = judgement.finding.shape == Shape::kStale ? OfTime(judgement.finding, calls)
                                                         : OfSize(judgement, worst);
  words.measured = {
      Form("{0} is {1} at step {2}, at most {3} (step {4}), and {5} at the end (step "
           "{6}).",
           "{0} 在第 {2} 步为 {1}，最大为 {3}（第 {4} 步），最后为 {5}（第 {6} 步）。"),
      {runs::Name(first.log_name), Number(first.log_value, 3), first.step,
       Number(worst.log_value, 3), worst.step, Number(last.log_value, 3), last.step}};
  if (judgement.finding.shape == Shape::kRareTokens || judgement.finding.shape == Shape::kOffset) {
    words.measured += Sentence(Form("That is about {0} nats (rms). Between engines in 16 bits a "
                                    "mean |d| of 0.01 to 0.03 and "
                                    "a k3 of 0.001 to 0.002 are usual.",
                                    "这约为 {0} nats（均方根）。16 位引擎之间通常 |d| 的均值为 "
                                    "0.01 到 0.03，k3 为 0.001 到 "
                                    "0.002。"),
                               {Short(worst.figures.rms)});
  }
  return words;
}

}  // namespace

Words WordsOf(const Judgement& judgement, std::span<const Call> calls) {
  Words words;
  if (calls.empty()) {
    words.title = Form("Nothing was compared", "没有做过比较");
    words.measured =
        Form("The run holds no comparison of log-probabilities.", "该运行不含对数概率的比较。");
    words.fix = Form(
        "Call mpnanny.log_mismatch(trainer_logprobs, rollout_logprobs, mask=…) once an update in "
        "the training, or give two files of log-probabilities.",
        "在训练中每次更新调用一次 mpnanny.log_mismatch(trainer_logprobs, rollout_logprobs, "
        "mask=…)，或给出两个对数概率文件。");
    return words;
  }
  if (judgement.agreement == Agreement::kNotEstablished) {
    words.title = Form("Nothing could be compared", "没有可比较的内容");
    words.measured = Form("No token counts.", "没有计入的 token。");
    words.fix = Form("Give a mask that is not zero for the sampled tokens.",
                     "请给出在被采样 token 处不为零的掩码。");
    return words;
  }
  if (!calls.front().log_name.empty()) return OfLog(judgement, calls);
  const Finding& f = judgement.finding;
  switch (f.shape) {
    case Shape::kHead:
      words = OfHead(f);
      break;
    case Shape::kTemperature:
      words = OfTemperature(f);
      break;
    case Shape::kTruncated:
      words = OfTruncated(f);
      break;
    case Shape::kStale:
    case Shape::kGrows:
      words = OfTime(f, calls);
      break;
    case Shape::kShifted:
    case Shape::kDocuments:
    case Shape::kPadding:
    case Shape::kDecoding:
    case Shape::kPosition:
    case Shape::kRows:
    case Shape::kRouting:
      words = OfPlaces(f);
      break;
    default:
      words = OfSize(judgement, calls[judgement.shown]);
  }
  if (judgement.head_excluded) {
    words.measured += Sentence(
        Form("It is not the head: no format, temperature or truncation of it, tried on the "
             "trainer's "
             "hidden states, leaves less than {0} nats.",
             "不是输出头：在训练端的隐藏状态上试过的任何格式、temperature 或截断，剩余都不低于 {0} "
             "nats。"),
        {Short(judgement.head_rest)});
  }
  return words;
}

Sentence SizeOf(const Call& call) {
  if (!call.log_name.empty()) return "";
  const LogprobMismatch& f = call.figures;
  return {
      Form("Update {0}, {1:token}: rms {2} nats, mean {3}, k3 {4}, 99.9 % below {5}, largest {6}; "
           "{7} % of the tokens beyond e^±0.5.",
           "更新 {0}，{1} 个 token：均方根 {2} nats，均值 {3}，k3 {4}，99.9% 低于 {5}，最大 "
           "{6}；{7}% 的 token 超出 e^±0.5。"),
      {call.shown_step(), f.tokens, Number(f.rms, 3), Number(f.mean, 2), Number(f.k3, 2),
       Number(f.p999, 3), Number(f.largest, 3), Percent(f.beyond)}};
}

}  // namespace mpnanny::mismatch
