#include "engines/mismatch/head_words.h"

#include <map>
#include <string>

#include "engines/mismatch/place_words.h"
#include "engines/runs/show.h"

namespace mpnanny::mismatch {
namespace {

using runs::Form;
using runs::Number;
using runs::Sentence;

Sentence WayText(const std::string& way) {
  static const std::map<std::string, Form> kTexts = {
      {"head_bf16", Form("operands of the head in BF16", "输出头的操作数为 BF16")},
      {"head_fp16", Form("operands of the head in FP16", "输出头的操作数为 FP16")},
      {"logits_bf16", Form("logits rounded to BF16", "logits 舍入到 BF16")},
      {"logits_fp16", Form("logits rounded to FP16", "logits 舍入到 FP16")},
      {"head_and_logits_bf16", Form("head and logits in BF16", "输出头和 logits 均为 BF16")},
      {"head_and_logits_fp16", Form("head and logits in FP16", "输出头和 logits 均为 FP16")},
      {"log_softmax_bf16",
       Form("head, logits and log_softmax in BF16", "输出头、logits 和 log_softmax 均为 BF16")},
      {"log_softmax_fp16",
       Form("head, logits and log_softmax in FP16", "输出头、logits 和 log_softmax 均为 FP16")},
      {"softcap", Form("logits with a soft cap (cap · tanh(logits / cap))",
                       "带软上限的 logits（cap · tanh(logits / cap)）")},
  };
  const auto found = kTexts.find(way);
  return found == kTexts.end() ? Sentence(runs::Name(way)) : Sentence(found->second);
}

Sentence Explained(const Finding& finding) {
  return {Form("That takes the difference from {0} to {1} nats (rms).",
               "这样差异（均方根）从 {0} 降到 {1} nats。"),
          {Short(finding.before), Short(finding.after)}};
}

// The engine's come out of the trainer's states and head, and the trainer's own do not.
Words BehindHead(const Finding& f) {
  Words words;
  words.title = Form("The trainer does more to its logits than the rollout engine",
                     "训练端对 logits 做了推理引擎没有做的处理");
  words.measured = {
      Form("Computed anew from the trainer's hidden states and head in FP32, the "
           "log-probabilities of the rollout engine come out to {0} nats (rms), and the trainer's "
           "own to {1} only; by no format, temperature, soft cap, top-k or top-p that was tried "
           "either.",
           "用训练端的隐藏状态和输出头以 FP32 重新计算后，与推理引擎的对数概率只差 {0} "
           "nats（均方根），而与训练端自己的相差 {1}；所尝试的格式、temperature、软上限、top-k "
           "和 top-p 也都不能解释。"),
      {Short(f.after), Short(f.before)}};
  words.meaning = Form(
      "Weights and hidden states are the same; between the head and log_softmax the trainer "
      "applies something that the engine leaves out: a soft cap, a scale, a bias, a mask of the "
      "vocabulary, another temperature.",
      "权重和隐藏状态相同；在输出头和 log_softmax "
      "之间，训练端应用了引擎省略的处理：软上限、缩放、偏置、词表屏蔽或另一个 temperature。");
  words.fix = Form("Compare the code between the head and log_softmax on both sides.",
                   "比较两端从输出头到 log_softmax 之间的代码。");
  return words;
}

}  // namespace

Sentence SideOf(bool of_trainer) {
  return of_trainer ? Sentence(Form("the trainer", "训练端"))
                    : Sentence(Form("the rollout engine", "推理引擎"));
}

Words OfHead(const Finding& f) {
  if (f.way.empty()) return BehindHead(f);
  Words words;
  words.title = Form("The output head is computed in another format", "输出头的计算格式不同");
  words.measured = {Form("Computed anew from the trainer's hidden states, the log-probabilities of "
                         "{0} come out of this: {1}; those of the other side come out of FP32.",
                         "用训练端的隐藏状态重新计算后，{0}的对数概率与此一致：{1}；另一端的与 "
                         "FP32 一致。"),
                    {SideOf(f.of_trainer), WayText(f.way)}};
  words.measured += Explained(f);
  if (f.way == "softcap") {
    words.measured += Sentence(Form("The cap is {0}.", "上限为 {0}。"), {Number(f.value, 3)});
    words.meaning = Form("The soft cap of the logits is applied on one side only.",
                         "logits 的软上限只在一端应用。");
    words.fix = Form("Apply final_logit_softcapping on both sides.",
                     "两端都应用 final_logit_softcapping。");
    return words;
  }
  words.meaning = Form(
      "A logit of 16 has a spacing of 0.125 in BF16 and 0.016 in FP16; rare tokens take the whole "
      "error.",
      "大小为 16 的 logit 在 BF16 中的间距为 0.125，在 FP16 中为 0.016；低概率 token "
      "承受全部误差。");
  words.fix = {Form("Compute head and log_softmax in FP32 on both sides (`lm_head` in FP32, or its "
                    "logits by an FP32 product), {0} first.",
                    "两端都用 FP32 计算输出头和 log_softmax（`lm_head` 用 FP32，或以 FP32 "
                    "乘法得到 logits），先改{0}。"),
               {SideOf(f.of_trainer)}};
  return words;
}

Words OfTemperature(const Finding& f) {
  Words words;
  words.title = Form("One side's temperature is another one", "一端的 temperature 不同");
  if (f.way.empty()) {
    words.measured = {
        Form("At a temperature of {0} the trainer's distribution comes nearest to the "
             "rollout's (fitted from the log-probabilities alone).",
             "仅由对数概率拟合，训练端的分布在 temperature 为 {0} 时最接近推理端。"),
        {Number(f.value, 2)}};
  } else {
    words.measured = {
        Form("Computed anew from the trainer's hidden states at a temperature of {0}, "
             "the log-probabilities are those of {1}.",
             "用训练端的隐藏状态在 temperature {0} 下重新计算，得到的就是{1}的对数概率。"),
        {Number(f.value, 2), SideOf(f.of_trainer)}};
  }
  words.measured += Explained(f);
  words.meaning = Form(
      "One side divides its logits by the sampling temperature and the other does not, or engines "
      "report log-probabilities before it.",
      "一端用采样 temperature 除了 logits 而另一端没有，或引擎返回的是除之前的对数概率。");
  words.fix = Form(
      "Divide the trainer's logits by the temperature that the sampling used, or let the engine "
      "return log-probabilities of what it sampled from (vLLM: "
      "logprobs_mode=\"processed_logprobs\").",
      "让训练端的 logits 除以采样所用的 temperature，或让引擎返回其实际采样分布的对数概率（vLLM："
      "logprobs_mode=\"processed_logprobs\"）。");
  return words;
}

Words OfTruncated(const Finding& f) {
  Words words;
  words.title = Form(
      "One side's probabilities are renormalised over the tokens that top-k or top-p "
      "keeps",
      "一端的概率在 top-k 或 top-p 保留的 token 上重新归一化");
  if (f.way.empty()) {
    words.measured = {
        Form("The rollout's probability is never below the trainer's where they differ; the mean "
             "ratio is {0}.",
             "两端不同之处，推理端的概率从不低于训练端；平均比值为 {0}。"),
        {Number(f.value, 3)}};
  } else {
    words.measured = {Form("Renormalised over {0} = {1}, the trainer's distribution gives the "
                           "log-probabilities of "
                           "{2}.",
                           "在 {0} = {1} 上重新归一化后，训练端的分布给出{2}的对数概率。"),
                      {f.way, Number(f.value, 4), SideOf(f.of_trainer)}};
    words.measured += Explained(f);
  }
  words.meaning = Form("Sampling drops rare tokens, and what is left is made to sum to 1.",
                       "采样丢弃低概率 token，余下的被归一化为 1。");
  words.fix = Form(
      "Sample with top_p = 1 and top_k = 0 in RL, or take log-probabilities from before truncation "
      "on both sides.",
      "强化学习采样时使用 top_p = 1 和 top_k = 0，或两端都取截断之前的对数概率。");
  return words;
}

}  // namespace mpnanny::mismatch
