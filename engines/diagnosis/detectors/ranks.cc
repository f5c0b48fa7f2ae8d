// Faults between the ranks of one training, as engines/ranks/ measured them.
#include "engines/runs/ranks.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "engines/diagnosis/detectors/detector.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using ranks::Fault;
using ranks::Finding;
using runs::Form;
using runs::Number;
using runs::Sentence;

constexpr size_t kNamesShown = 3;

// "head.weight", "head.weight, head.bias and 4 more".
Sentence Names(const Finding& finding) {
  std::vector<std::string> names;
  for (size_t i = 0; i < finding.tensors.size() && i < kNamesShown; ++i)
    names.push_back(runs::Name(finding.tensors[i]));
  const std::string shown = Join(names, ", ");
  if (finding.tensors.size() <= kNamesShown) return shown;
  return {Form("{0} and {1} more", "{0} 等（另有 {1} 个）"),
          {shown, static_cast<int64_t>(finding.tensors.size() - kNamesShown)}};
}

Sentence Ranks(const std::vector<int64_t>& ranks) {
  return runs::RanksText(ranks, static_cast<int64_t>(ranks.size()) + 1);
}

// "at step 12", "from step 0 on, the first that was compared", "at step 100 (the last step before
// it that was compared is 64)".
Sentence When(const Finding& finding) {
  if (!finding.last_good) {
    return {
        Form("from step {0} on (the first that was compared)", "从第 {0} 步起（首个比较过的步）"),
        {finding.step}};
  }
  if (*finding.last_good == finding.step - 1) {
    return {Form("from step {0} on", "从第 {0} 步起"), {finding.step}};
  }
  return {Form("at step {0}, and not yet at step {1}, the compared step before it",
               "在第 {0} 步出现，而其前一个比较过的步（第 {1} 步）还没有"),
          {finding.step, *finding.last_good}};
}

Sentence At(const std::string& source) {
  if (source.empty()) return "";
  return {Form(" ({0})", "（{0}）"), {EscapeControl(source, 200)}};
}

struct Words {
  const char* sign;
  Sentence sentence, title, fix;
  Phase phase = Phase::kOptimizer;
};

Words WordsOfNan(const Finding& f) {
  Words words{"rank-nan", {}, {}, {}, Phase::kBackward};
  const Sentence who = Ranks(f.ranks);
  words.sentence =
      f.operation.empty()
          ? Sentence(Form("At step {0} {1} made a value that is not finite by itself; the others "
                          "were finite until their gradients were reduced with its own.",
                          "第 {0} 步中，{1} "
                          "自己产生了非有限值；其他 rank 在梯度与它的梯度归约之前都是有限的。"),
                     {f.step, who})
          : Sentence(Form("At step {0} {1} handed a value that is not finite to {2}{3}; the others "
                          "were finite until then.",
                          "第 {0} 步中，{1} 把非有限值交给了 {2}{3}；其他 rank "
                          "在此之前都是有限的。"),
                     {f.step, who, EscapeControl(f.operation, 40), At(f.source)});
  if (!f.tensors.empty()) {
    words.sentence += Sentence(
        Form("Not finite there: the gradient of {0}.", "那里非有限的是 {0} 的梯度。"), {Names(f)});
  }
  words.title = {Form("NaN or Inf of {0}, which the collective carried to all others",
                      "{0} 产生的 NaN 或 Inf，由集合通信带给了所有其他 rank"),
                 {who}};
  words.fix = {
      Form("Look at what {0} had in that step: its batch, its mask, the operator that the "
           "alerts of that rank name (query_alerts with rank). The others only carry it. A "
           "check of the loss before backward() that all ranks vote on skips the step on "
           "all of them.",
           "查看 {0} 在该步中的内容：它的批次、它的掩码、该 rank 的告警所指的算子（query_alerts "
           "加 rank）。其他 rank 只是携带者。在 backward() "
           "之前由所有 rank 共同表决地检查损失，可使所有 rank 一起跳过该步。"),
      {who}};
  return words;
}

Words WordsOfReduction(const Finding& f) {
  Words words{"rank-reduced-twice", {}, {}, {}, Phase::kOptimizer};
  const Sentence names = Names(f);
  if (f.fault == Fault::kReducedTwice) {
    words.sentence = {
        Form("The gradient of {0} was the same on all ranks already when {1}{2} summed "
             "it, {3}: the sum is {4} times what it was.",
             "{1}{2} 对 {0} 的梯度求和时，它在所有 rank 上已经相同，{3}：结果是原来的 {4} 倍。"),
        {names, EscapeControl(f.operation, 40), At(f.source), When(f), Number(f.value, 3)}};
    words.title = Form("Gradients are reduced twice", "梯度被归约了两次");
    words.fix = Form(
        "Take one of the two reductions out: DistributedDataParallel and FSDP have "
        "averaged the gradients when backward() returns.",
        "去掉两次归约中的一次：backward() 返回时，DistributedDataParallel 和 FSDP "
        "已经对梯度取了平均。");
    return words;
  }
  if (f.fault == Fault::kNotReduced) {
    words.sign = "rank-not-reduced";
    words.sentence = {
        Form(
            "{1} stepped on the gradient that the rank itself had derived for {0}, {2}: it was not "
            "reduced over the ranks, and their copies go apart.",
            "{1} 用各自算出的梯度更新 {0}，{2}：该梯度没有在 rank 之间归约，各副本将逐渐分开。"),
        {names,
         f.ranks.empty() ? Sentence(Form("Each rank", "每个 rank")) : Ranks(f.ranks).Capital(),
         When(f)}};
    words.title = {
        Form("The gradient of {0} is not reduced over the ranks", "{0} 的梯度没有在 rank 之间归约"),
        {names}};
    words.fix = Form(
        "Reduce it as the others are: let DistributedDataParallel or FSDP wrap the "
        "module, leave no_sync() for the last backward pass of a step, or add it to the "
        "loop that calls all_reduce. What ranks hold by then differs: broadcast it once.",
        "像其他梯度一样归约：让 DistributedDataParallel 或 FSDP "
        "包装该模块，在一步的最后一次反向传播时退出 "
        "no_sync()，或把它加入调用 all_reduce 的循环。此时各 rank 的值已经不同：请广播一次。");
    return words;
  }
  words.sign = "rank-mean";
  if (f.value == 0) {
    words.sentence = {
        Form("The reduced gradient of {0} is no multiple of the sum of what the ranks "
             "derived, {1}; those of the other tensors are.",
             "{0} 归约后的梯度不是各 rank 所算梯度之和的倍数，{1}；其他张量的都是。"),
        {names, When(f)}};
  } else {
    words.sentence = {Form("The reduced gradient of {0} is {1} times the mean by which all others "
                           "are reduced, {2}.",
                           "{0} 归约后的梯度是其他张量所用平均值的 {1} 倍，{2}。"),
                      {names, Number(f.value, 3), When(f)}};
  }
  words.title = {Form("The gradient of {0} is not reduced as the others are",
                      "{0} 的梯度的归约方式与其他张量不同"),
                 {names}};
  words.fix = Form(
      "Look for a second reduction of it, a division by the ranks that it missed or got "
      "twice, or a use of it that its reduction does not see (a shared module).",
      "查找对它的第二次归约、缺少或重复的除以 rank 数，或其归约没有覆盖到的使用（共享模块）。");
  return words;
}

Words WordsOfScale(const Finding& f) {
  if (f.fault == Fault::kFactorsDiffer) {
    Words words{"rank-factors", {}, {}, {}, Phase::kOptimizer};
    words.sentence = {
        Form("Ranks scaled their gradients by different factors before the update, {0}: "
             "by {1} and by {2}. One norm of all ranks' gradients gives one factor.",
             "更新之前各 rank 用不同的系数缩放梯度，{0}：{1} 和 {2}。"
             "所有 rank 梯度的同一个范数只会给出同一个系数。"),
        {When(f), Number(f.value, 4), Number(f.other, 4)}};
    words.title = Form("Each rank clips its gradients by a norm of its own",
                       "每个 rank 按自己的范数裁剪梯度");
    words.fix = Form(
        "Compute the norm over all ranks: sum the squares of the shards over the ranks "
        "that hold different ones (all_reduce), count what several ranks hold once, and "
        "then take the root; torch.nn.utils.clip_grad_norm_ does it for DTensors.",
        "在所有 rank 上计算范数：对持有不同分片的 rank 求平方和（all_reduce），多个 rank "
        "共同持有的部分只计一次，然后开方；torch.nn.utils.clip_grad_norm_ 会对 DTensor 这样做。");
    return words;
  }
  Words words{"rank-norm", {}, {}, {}, Phase::kOptimizer};
  words.sentence = {
      Form("The norm by which the program clips is {0} times the true one, {1}: {2}, and "
           "the gradients of all ranks have {3}{4}.",
           "程序裁剪所用的范数是真实范数的 {0} 倍，{1}：{2}，而所有 rank 的梯度为 {3}{4}。"),
      {Number(f.value / f.other, 3), When(f), Number(f.value), Number(f.other), At(f.source)}};
  if (f.of_own_shards) {
    words.sentence +=
        Form("It is the norm of what the rank itself holds.", "它只是该 rank 自身所持部分的范数。");
  } else if (f.value > f.other) {
    words.sentence += Form("What several ranks hold is counted once for each of them.",
                           "多个 rank 共同持有的部分被每个 rank 各计了一次。");
  }
  words.title = Form("The gradient norm is not that of all ranks' gradients",
                     "梯度范数不是所有 rank 梯度的范数");
  words.fix = Form(
      "Sum the squares of sharded gradients over the ranks that hold different shards, and "
      "those of replicated ones once; then take the root.",
      "对分片的梯度，在持有不同分片的 rank 之间求平方和；对复制的梯度只计一次；然后开方。");
  return words;
}

Words WordsOfState(const Finding& f) {
  Words words{"rank-parameter", {}, {}, {}, Phase::kOptimizer};
  const Sentence names = Names(f), who = Ranks(f.ranks);
  switch (f.fault) {
    case Fault::kBufferDiffers:
      words.sign = "rank-buffer";
      words.phase = Phase::kForward;
      words.sentence = {
          Form("The buffer {0} differs on {1}, {2}, and nobody writes to it: its norm is "
               "{3} there and {4} on the others.",
               "缓冲区 {0} 在 {1} 上不同，{2}，而且没有人写它：那里的范数为 {3}，其他为 {4}。"),
          {names, who, When(f), Number(f.value), Number(f.other)}};
      words.title = {
          Form("The buffer {0} is not the same on all ranks", "缓冲区 {0} 在各 rank 上不同"),
          {names}};
      words.fix = Form(
          "Compute it from the same numbers on every rank, after the model was moved "
          "off the meta device (to_empty() leaves what was in memory), or broadcast it "
          "once before the training.",
          "在每个 rank 上用相同的数字计算它，并在模型离开 meta 设备之后（to_empty() "
          "会留下内存中原有的内容），或在训练前广播一次。");
      return words;
    case Fault::kSummedInPlace:
      words.sign = "rank-sum-in-place";
      words.sentence = {
          Form("The buffer {0} holds a sum over the ranks and is summed over them again "
               "in place by {1}{2}, {3}: each call makes it about {4} times as large.",
               "缓冲区 {0} 已是各 rank 之和，又被 {1}{2} 原地再次求和，{3}：每次调用使其约为原来的 "
               "{4} 倍。"),
          {names, EscapeControl(f.operation, 40), At(f.source), When(f), Number(f.value, 3)}};
      words.title = {
          Form("{0} is summed over the ranks again and again", "{0} 被反复在 rank 之间求和"),
          {names}};
      words.fix = Form(
          "Reduce what the step has added (a fresh tensor), then add the result to the "
          "buffer.",
          "先归约这一步新增的部分（一个新张量），再把结果加到缓冲区上。");
      return words;
    case Fault::kGradientsDiffer:
      words.sign = "rank-gradients";
      words.phase = Phase::kBackward;
      words.sentence = {
          Form("The gradient of {0} should be the same on {1} and is not, {2}: they hold "
               "the same parameter and go apart with the update.",
               "{0} 的梯度在{1}上应当相同，实际却不同，{2}：它们持有相同的参数，更新后将分开。"),
          {names, runs::RanksText(f.of, static_cast<int64_t>(f.of.size())), When(f)}};
      words.title = {Form("Ranks that hold the same {0} derive different gradients for it",
                          "持有相同 {0} 的 rank 算出了不同的梯度"),
                     {names}};
      words.fix = Form(
          "What comes before it must be the same on these ranks: the batch, the seed of "
          "dropout outside of sharded layers, the reduction of partial results.",
          "在它之前的一切在这些 rank 上必须相同：批次、分片层之外的 dropout "
          "种子、部分结果的归约。");
      return words;
    case Fault::kParameterParts:
      words.sentence = {Form("The parameter {0} was the same on all ranks and differs on {1}, {2}.",
                             "参数 {0} 原本在所有 rank 上相同，在 {1} 上变得不同，{2}。"),
                        {names, who, When(f)}};
      if (f.gradients_were_same) {
        words.sentence +=
            Form("Their gradients were the same: what the optimizer did with them was not.",
                 "它们的梯度相同：优化器对它们的处理不同。");
      }
      words.title = {Form("Ranks update {0} in different ways", "各 rank 以不同方式更新 {0}"),
                     {names}};
      words.fix = Form(
          "Compare learning rate, weight decay and the optimizer's states of the ranks: a "
          "state restored on one rank only, a scheduler stepped on one rank, a change "
          "under `if rank == 0`.",
          "比较各 rank 的学习率、权重衰减和优化器状态：只在一个 rank 上恢复的状态、只在一个 rank "
          "上推进的调度器、`if rank == 0` 之下的修改。");
      return words;
    default:
      words.sentence = {
          Form("The parameter {0} has other values on {1}, {2}, though its gradient is "
               "reduced over the ranks.",
               "参数 {0} 在 {1} 上的值不同，{2}，尽管它的梯度在 rank 之间归约。"),
          {names, who, When(f)}};
      words.title = {Form("{0} did not begin the same on all ranks", "{0} 在各 rank 上的初值不同"),
                     {names}};
      words.fix = Form(
          "Initialise it with the same seed on every rank, or broadcast it before the "
          "first step; what is added after DistributedDataParallel wrapped the model is "
          "not broadcast.",
          "在每个 rank 上用相同的种子初始化，或在第一步之前广播；DistributedDataParallel "
          "包装模型之后添加的部分不会被广播。");
      return words;
  }
}

Words WordsOf(const Finding& finding) {
  switch (finding.fault) {
    case Fault::kNanOfRank:
      return WordsOfNan(finding);
    case Fault::kReducedTwice:
    case Fault::kNotReduced:
    case Fault::kNotTheMean:
      return WordsOfReduction(finding);
    case Fault::kFactorsDiffer:
    case Fault::kNormWrong:
      return WordsOfScale(finding);
    default:
      return WordsOfState(finding);
  }
}

Claim LocalParameter(const Finding& finding) {
  Claim claim;
  claim.id = "rank-parameter";
  claim.ground = Ground::kMeasured;
  claim.note = true;
  claim.strength = 0.3;
  claim.sentence = {
      Form(
          "{0} differs between the ranks from the start and its gradient is not reduced: each rank "
          "trains its own. If that is not meant (as of a local expert), broadcast and reduce it.",
          "{0} 从一开始就在各 rank 上不同，且梯度没有归约：每个 rank "
          "训练自己的一份。如果并非有意（如局部专家），请广播并归约它。"),
      {Names(finding)}};
  return claim;
}

}  // namespace

void DetectRanks(const Facts& facts, std::vector<Claim>& claims) {
  for (const Finding& finding : facts.ranks.findings) {
    if (finding.fault == Fault::kLocalParameter) {
      claims.push_back(LocalParameter(finding));
      continue;
    }
    Words words = WordsOf(finding);
    Claim claim;
    claim.id = words.sign;
    claim.ground = Ground::kMeasured;
    claim.strength = 1;
    claim.fault = true;
    claim.in_loop = finding.fault != Fault::kNanOfRank;
    claim.sentence = std::move(words.sentence);
    claim.title = words.title;
    claim.fix = std::move(words.fix);
    claim.place = FaultPlace{
        finding.step, words.phase,    finding.tensors.empty() ? "" : finding.tensors.front(),
        "",           finding.source, std::move(words.title)};
    if (!finding.source.empty()) claim.lines = {finding.source};
    claims.push_back(std::move(claim));
  }
}

}  // namespace mpnanny::diagnosis
