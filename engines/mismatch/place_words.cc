#include "engines/mismatch/place_words.h"

#include <string>
#include <utility>

#include "engines/runs/show.h"

namespace mpnanny::mismatch {
namespace {

using runs::Form;
using runs::Sentence;

// "rms 0.6 in …, 0.0004 in …: a factor of 1,500, and 97 % of the squared difference".
Sentence Between(const Contrast& contrast, Sentence loud, Sentence quiet) {
  return {
      Form("The difference is {0} nats (rms) in {1} ({2:token}) and {3} in {4} ({5:token}); the "
           "first hold {6} % of its squares.",
           "差异（均方根）在{1}中为 {0} nats（{2} 个 token），在{4}中为 {3}（{5} 个 "
           "token）；前者占平方和的 {6}%。"),
      {Short(contrast.loud), std::move(loud), contrast.loud_tokens, Short(contrast.quiet),
       std::move(quiet), contrast.quiet_tokens, Percent(contrast.Share())}};
}

}  // namespace

Words OfPlaces(const Finding& f) {
  Words words;
  const Contrast& c = f.contrast;
  switch (f.shape) {
    case Shape::kShifted:
      words.title = Form("One side is a token off", "一端错开了一个 token");
      words.measured = {
          Form("Against the neighbouring token's value the difference is {0} nats "
               "(rms), against its own {1}.",
               "与相邻 token 的值相比差异（均方根）为 {0} nats，与自身的值相比为 {1}。"),
          {Short(f.after), Short(f.before)}};
      words.meaning = Form(
          "The logits of a place predict the token behind it: one side is sliced once more or once "
          "less.",
          "某位置的 logits 预测其后一个 token：一端多切或少切了一位。");
      words.fix = Form("Compare logits[:, :-1] with tokens[:, 1:] on both sides.",
                       "两端都用 logits[:, :-1] 对应 tokens[:, 1:]。");
      return words;
    case Shape::kDocuments:
      words.title =
          Form("Tokens of a row's later documents disagree", "一行中靠后文档的 token 不一致");
      words.measured = Between(c, Form("later documents of a row", "一行中靠后的文档"),
                               Form("the first one", "第一个文档"));
      words.meaning = Form(
          "The first document of a packed row has nothing before it; later ones differ where "
          "attention sees across the boundary, positions go on counting, or a cache is not reset.",
          "打包行的第一个文档前面没有内容；如果注意力跨越边界、位置继续累加或缓存未重置，"
          "靠后的文档就会不同。");
      words.fix = Form(
          "Give the packed pass its boundaries (cu_seqlens, a block-diagonal mask) and positions "
          "that begin anew with each document; check one packed row against its documents alone.",
          "为打包的前向传播提供边界（cu_seqlens、块对角掩码）和逐文档重新开始的位置；"
          "将一个打包行与其各文档单独计算的结果对比。");
      return words;
    case Shape::kPadding:
      words.title = Form("Rows with padding before their text disagree", "文本前有填充的行不一致");
      words.measured = Between(c,
                               {Form("rows with {0} or more tokens of padding before their text",
                                     "文本前有 {0} 个或更多填充 token 的行"),
                                {f.from}},
                               Form("rows with fewer or none", "填充更少或没有填充的行"));
      words.meaning = Form(
          "One side counts positions from the edge of the padded row instead of the first token of "
          "the text, or its attention sees the padding.",
          "一端从填充行的边缘而不是文本的第一个 token 开始计数位置，或其注意力看到了填充。");
      words.fix = Form(
          "Make position_ids from the attention mask (its cumulative sum less 1), hand the mask to "
          "the model on both sides, and compare a padded row with the same row without padding.",
          "由注意力掩码生成 position_ids（累积和减 1），两端都把掩码交给模型，"
          "并将一个填充行与去掉填充的同一行比较。");
      return words;
    case Shape::kDecoding:
      words.title = Form("Only the first token of an answer agrees", "只有答案的第一个 token 一致");
      words.measured = Between(c, Form("the tokens behind it", "其后的 token"),
                               Form("the first token of each answer", "每个答案的第一个 token"));
      words.meaning = Form(
          "The first token comes out of the pass over the prompt, the others out of steps with the "
          "KV cache: its positions, its format or its masks differ from a full pass.",
          "第一个 token 来自对提示词的前向传播，其余来自使用 KV "
          "缓存的步骤：缓存的位置、格式或掩码与完整前向传播不同。");
      words.fix = Form(
          "Compare one cached step with a full pass over the same tokens: position ids of sampled "
          "tokens, dtype of the cache, window.",
          "用相同的 token 比较一个缓存步骤和一次完整前向传播：采样 token 的位置、缓存的 "
          "dtype、窗口。");
      return words;
    case Shape::kPosition:
      words.title = {Form("The difference begins at about position {0}, or grows with it",
                          "差异大约从位置 {0} 开始，或随位置增长"),
                     {f.from}};
      words.measured = Between(c, {Form("positions from {0} on", "位置 {0} 及之后"), {f.from}},
                               Form("those before", "之前的位置"));
      words.meaning = Form(
          "Positions are counted or rotated otherwise (RoPE's base, scaling, offset, left "
          "padding), "
          "a window or a limit of length holds on one side only, or errors of a cache add up.",
          "位置的计数或旋转方式不同（RoPE 的 "
          "base、缩放、偏移、左填充），窗口或长度限制只在一端生效，"
          "或缓存的误差累积。");
      words.fix =
          Form("Compare rope_theta, rope_scaling, position ids and sliding_window of both sides.",
               "比较两端的 rope_theta、rope_scaling、位置编号和 sliding_window。");
      return words;
    case Shape::kRows:
      words.title = Form("Some sequences agree and others do not", "一些序列一致，另一些不一致");
      words.measured = {
          Form("Of the rows of one call the one that agrees best has an error of {0} in "
               "each logit, the worst of {1}.",
               "同一次调用的各行中，最一致的一行相当于每个 logit 有 {0} 的误差，最差的为 "
               "{1}。"),
          {Short(c.quiet), Short(c.loud)}};
      words.meaning = Form(
          "What differs belongs to a sequence: its padding, its adapter, its template, its engine, "
          "or the weights at the time at which it was sampled.",
          "差异属于序列本身：它的填充、适配器、模板、引擎，或采样它时的权重。");
      words.fix = Form(
          "Sort the rows by their difference and look at what the worst have in common: length of "
          "prompt, padding, engine, weight version.",
          "按差异对各行排序，查看最差的行有何共同点：提示长度、填充、引擎、权重版本。");
      return words;
    default:  // kRouting
      words.title = Form("Tokens went to other experts", "token 被路由到了不同的专家");
      words.measured = Between(c, Form("tokens with other experts", "专家不同的 token"),
                               Form("tokens with the same experts", "专家相同的 token"));
      words.measured += Sentence(
          Form("{0} % of the tokens went to other experts.", "{0}% 的 token 被路由到不同的专家。"),
          {Percent(f.value)});
      words.meaning = Form(
          "Two scores of a router are nearly equal, and rounding decides: a small difference of a "
          "hidden state becomes another expert.",
          "路由器的两个分数几乎相等，由舍入决定：隐藏状态的微小差异变成了另一个专家。");
      words.fix = Form(
          "Compute the router in FP32 on both sides, or replay the engine's choices in the trainer "
          "(router replay), or leave such tokens out of the loss.",
          "两端都用 FP32 计算路由器，或在训练端重放引擎的选择（router replay），或将这些 token "
          "排除在损失之外。");
      return words;
  }
}

}  // namespace mpnanny::mismatch
