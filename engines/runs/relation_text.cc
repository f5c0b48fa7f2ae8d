#include "engines/runs/relation_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/text.h"
#include "engines/runs/operator_words.h"
#include "engines/runs/replay_text.h"
#include "engines/runs/show.h"

namespace mpnanny::runs {
namespace {

constexpr size_t kNamesShown = 3;
constexpr size_t kPlaceBytes = 160;
constexpr double kWholePower = 0.05;

Sentence Listed(const std::vector<std::string>& names, size_t count) {
  std::vector<std::string> words;
  for (const std::string& name : names) {
    if (words.size() < kNamesShown && !name.empty()) words.push_back(Name(name));
  }
  const size_t more = count > words.size() ? count - words.size() : 0;
  Sentence text = Sentence::InEach(Join(words, ", "), Join(words, "、"));
  if (more == 0) return text;
  return {words.empty() ? Form("{0}{1} more", "{0}另外 {1} 个")
                        : Form("{0} and {1} more", "{0} 等，另有 {1} 个"),
          {std::move(text), static_cast<int64_t>(more)}};
}

// "2 parameters (a.weight, a.bias)".
Sentence Parameters(const ShadowRelation& relation) {
  const size_t count = relation.count && *relation.count >= 1 && *relation.count < 1e9
                           ? static_cast<size_t>(*relation.count)
                           : relation.parameters.size();
  const Sentence names = Listed(relation.parameters, count);
  const auto shown = static_cast<int64_t>(count);
  if (count == 1) {
    return names.empty() ? Sentence(Form("a parameter", "一个参数"))
                         : Sentence(Form("the parameter {0}", "参数 {0} "), {names});
  }
  return names.empty()
             ? Sentence(Form("{0} parameters", "{0} 个参数"), {shown})
             : Sentence(Form("{0} parameters ({1})", "{0} 个参数（{1}）"), {shown, names});
}

Sentence Steps(const ShadowRelation& relation) {
  if (!relation.steps || !(*relation.steps >= 1 && *relation.steps < 1e9)) return {};
  return {Form(", in all {0} steps that were looked at", "，在所检查的全部 {0} 步中都是如此"),
          {static_cast<int64_t>(*relation.steps)}};
}

// Behind what is placed: " at train.py:50".
Sentence AtPlace(const std::string& place) {
  if (place.empty()) return {};
  return {Form(" at {0}", "（{0}）"), {place}};
}

// The last step up to which it held, where that is known.
std::optional<int64_t> UntilStep(const ShadowRelation& relation) {
  if (!relation.until || !(*relation.until >= 0 && *relation.until < 1e15)) return std::nullopt;
  return static_cast<int64_t>(*relation.until);
}

// "60" of 0.6.
std::optional<int64_t> PercentOf(const std::optional<double>& share) {
  if (!share || !(*share >= 0 && *share <= 1)) return std::nullopt;
  return static_cast<int64_t>(100 * *share + 0.5);
}

Sentence NoGradient(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  const Sentence parameters = Parameters(relation), op = OperatorNoun(finding.op);
  const Sentence got = relation.none ? Form("got no gradient", "没有得到梯度")
                                     : Form("got a gradient of exactly 0", "得到的梯度恰好为 0");
  const auto until = UntilStep(relation);
  const Sentence when = until ? Sentence(Form(" in the last steps that were looked at; up to step "
                                              "{0} they got one that is not 0",
                                              "，是在所检查的最后几步中；直到第 {0} 步，"
                                              "它们得到的梯度都不为 0"),
                                         {*until})
                              : Steps(relation);
  return {finding.phase == Phase::kBackward
              ? Form("The {0}{1} passes back a gradient that is 0 everywhere: {2}, which the loss "
                     "depends on and the optimizer holds, {3}{4}.",
                     "{0}{1}反向传回的梯度处处为 0：损失依赖于{2}，优化器也持有，"
                     "但{3}{4}。")
              : Form("The {0}{1} cuts off the gradient: {2}, which the loss depends on and the "
                     "optimizer holds, {3}{4}.",
                     "{0}{1}截断了梯度：损失依赖于{2}，优化器也持有，但{3}{4}。"),
          {op, AtPlace(place), parameters, got, when}};
}

Sentence NotUpdated(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  Sentence text(
      Form("The gradient of {0} is not 0, but no optimizer holds it and it does not change{1}.",
           "{0}的梯度不为 0，但没有优化器持有，也没有变化{1}。"),
      {Parameters(relation), Steps(relation)});
  if (!place.empty()) {
    text += {Form("It was put{0} in the place of the one that the optimizer holds, after the "
                  "optimizer had been given that.",
                  "它在{0}取代了优化器所持有的参数，而优化器在此之前已得到后者。"),
             {AtPlace(place)}};
    return text;
  }
  if (relation.stranded && *relation.stranded >= 1 && *relation.stranded < 1e9) {
    text += {Form("The optimizer holds {0:parameter} of no module without a gradient: a module was "
                  "replaced after the optimizer was given its parameters.",
                  "优化器持有 {0} 个不属于任何模块、没有梯度的参数："
                  "在把参数交给优化器之后，模块被替换了。"),
             {static_cast<int64_t>(*relation.stranded)}};
  }
  return text;
}

// Where backward() adds to gradients that are still there.
Sentence AddsAt(const std::string& place) {
  if (place.empty()) return {};
  return {Form(": backward() at {0} adds to them", "：{0} 处的 backward() 累加在其上"), {place}};
}

// Gradients of a loss that another optimizer has stepped on.
Sentence OfAnother(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  const auto percent = PercentOf(relation.share);
  return {Form("The gradients that the optimizer gets still contain those that backward(){0} left "
               "for another optimizer's step{1}{2}{3}. zero_grad() of this optimizer is missing "
               "between the two.",
               "优化器得到的梯度中仍含有 backward(){0} 为另一个优化器的更新留"
               "下的梯度{1}{2}{3}。两者之间缺少该优化器的 zero_grad()。"),
          {AtPlace(EscapeControl(relation.at, 300)),
           percent ? Sentence(Form(" ({0} % of their norm)", "（占其范数的 {0} %）"), {*percent})
                   : Sentence(),
           AddsAt(place), Steps(relation)}};
}

Sentence NotZeroed(const ShadowFinding& finding, const std::string& place) {
  if (!finding.relation.at.empty()) return OfAnother(finding, place);
  return {
      Form("The gradients that the optimizer gets still contain those of its step before{0}{1}. "
           "zero_grad() is missing, or comes where it does not reach these parameters.",
           "优化器得到的梯度中仍含有前一步的梯度{0}{1}。缺少 zero_grad()，"
           "或者它所在的位置没有作用到这些参数。"),
      {Steps(finding.relation), AddsAt(place)}};
}

// What a file does not hold that the training held when it wrote it.
Sentence NotSaved(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  Sentence text(
      Form("The file that was written{0} and loaded at {1} does not hold all that the "
           "training went on with. {2}.",
           "在{0}写入、在 {1} 载入的文件并不包含训练所需的全部状态。{2}。"),
      {AtPlace(place), EscapeControl(relation.at, 300), EscapeControl(relation.what, 300)});
  if (relation.loss_before && relation.loss_after) {
    text += {Form("The loss was {0} before and is {1} after it, in the median.",
                  "此前损失的中位数为 {0}，此后为 {1}。"),
             {Number(*relation.loss_before, 3), Number(*relation.loss_after, 3)}};
  }
  return text;
}

Sentence NotRestored(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  if (!relation.at.empty()) return NotSaved(finding, place);
  if (relation.saved.empty() && !relation.parameters.empty()) {
    return {Form("A load{0} left {1} as before: what was loaded has other names. {2}.",
                 "载入{0}没有改变{1}：所载入的内容使用其他名称。{2}。"),
            {AtPlace(place), Parameters(relation), EscapeControl(relation.what, 300)}};
  }
  Sentence text(Form("Saved together were the states of {0}; the load{1} restored only {2}.",
                     "一起保存的有 {0} 的状态；载入{1}只恢复了 {2}。"),
                {Listed(relation.saved, relation.saved.size()), AtPlace(place),
                 Listed(relation.restored, relation.restored.size())});
  if (!relation.what.empty()) text += Sentence(EscapeControl(relation.what, 300) + ".");
  return text;
}

Sentence MovedOnSkip(const ShadowFinding& finding, const std::string& place) {
  const std::string& what = finding.relation.what;
  return {
      Form("{0}{1} went on in a step whose update was skipped; in other steps it changes exactly "
           "when the weights do.",
           "{0}{1}在跳过更新的步中仍然推进；在其他步中，"
           "它恰好与权重同时变化。"),
      {what.empty() ? Sentence(Form("A state", "某个状态")) : Sentence(EscapeControl(what, 200)),
       AtPlace(place)}};
}

// "train.py:50 and train.py:52"
Sentence Places(const std::vector<std::string>& sources) {
  std::vector<std::string> words;
  for (const std::string& source : sources) {
    if (words.size() < kNamesShown) words.push_back(EscapeControl(source, kPlaceBytes));
  }
  return Sentence::InEach(Join(words, " and "), Join(words, " 和 "));
}

// What the power of the scale in the gradients says of how it got there.
Sentence HowScaled(const ShadowRelation& relation, double power) {
  if (power > 0) {
    return {Form("The loss is multiplied by it{0}, and the gradients are not divided by it.",
                 "损失乘了它{0}，而梯度没有除以它。"),
            {AtPlace(EscapeControl(relation.entered, kPlaceBytes))}};
  }
  if (relation.left.size() > 1) {
    return {Form("It is taken out of the gradients more than once, at {0}.",
                 "它不止一次从梯度中除去，在 {0}。"),
            {Places(relation.left)}};
  }
  return {Form("The gradients are divided by it at {0}, and the loss that backward() started from "
               "was not multiplied by it.",
               "梯度在 {0} 除以了它，而 backward() 所用的损失没有乘它。"),
          {Places(relation.left)}};
}

Sentence LoadUndone(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  const Sentence names = Listed(relation.parameters, 0);
  const bool far = relation.times && *relation.times >= 1 && *relation.times < 1e12;
  return {Form("The first optimizer step{0} after weights were loaded{1} moves weights{2}{3}, back "
               "to their values of before: the optimizer writes values of its own, as FP32 master "
               "copies, over those that were loaded.",
               "载入权重{1}之后，优化器的第一次更新{0}使权重{2}变动{3}，"
               "回到此前的值：优化器用自己的值（例如 FP32 主权重）覆盖了载入的"
               "值。"),
          {AtPlace(place), AtPlace(EscapeControl(relation.at, 300)),
           names.empty() ? Sentence() : Sentence(Form(" (such as {0})", "（例如 {0}）"), {names}),
           far ? Sentence(Form(" {0} times as far as the run's usual step",
                               "，幅度为该训练通常一步的 {0} 倍"),
                          {static_cast<int64_t>(*relation.times)})
               : Sentence()}};
}

Sentence PartialCopy(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  const Sentence names = Listed(relation.parameters, 0);
  const auto percent = PercentOf(relation.share);
  return {Form("A copy of the network follows its weights, but not its buffers{0}: they are "
               "used{1} as they were at first, while the network's have moved{2}{3}.",
               "网络的一个副本跟随其权重，但不跟随其缓冲区{0}："
               "使用的仍是{1}最初的缓冲区，而网络的缓冲区已经变化{2}{3}。"),
          {names.empty() ? Sentence() : Sentence(Form(" (such as {0})", "（例如 {0}）"), {names}),
           AtPlace(place),
           percent ? Sentence(Form(" by {0} % of their norm", "，达其范数的 {0} %"), {*percent})
                   : Sentence(),
           Steps(relation)}};
}

Sentence DroppedGradient(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  const auto number = [](std::optional<double> value) -> Sentence {
    if (value && *value >= 1 && *value < 1e9) return static_cast<int64_t>(*value);
    return Form("several", "若干");
  };
  // Without the line that sets them to zero it is at the backward passes.
  const bool known = !relation.at.empty();
  return {
      Form("Gradients are set to zero{4} before the optimizer has used them: of the {0} backward "
           "passes{1} between two of its steps, {2} have no part in what it gets; only the "
           "last one counts{3}.",
           "梯度在优化器使用之前就被清零{4}：在它的两次更新之间的 {0} 次反向"
           "传播{1}中，有 {2} 次对它得到的梯度没有贡献；"
           "只有最后一次有效{3}。"),
      {number(relation.passes), AtPlace(known ? EscapeControl(relation.at, 300) : place),
       number(relation.count), Steps(relation), known ? AtPlace(place) : Sentence()}};
}

Sentence EmptyStep(const ShadowFinding& finding, const std::string& place) {
  const auto until = UntilStep(finding.relation);
  return {
      Form("The optimizer steps{0}, and none of its parameters has a gradient, although backward() "
           "runs: the loss comes from other weights than those that the optimizer holds{1}.",
           "优化器执行更新{0}，而它的参数都没有梯度，尽管 backward() 已运"
           "行：损失来自优化器所持有之外的权重{1}。"),
      {AtPlace(place),
       until ? Sentence(Form(". Up to step {0} they had gradients", "。直到第 {0} 步它们都有梯度"),
                        {*until})
             : Sentence()}};
}

Sentence MovedWeights(const ShadowFinding& finding) {
  const ShadowRelation& relation = finding.relation;
  const auto whole = [](const std::optional<double>& value, Form form) -> Sentence {
    if (!value || !(*value >= 1 && *value < 1e12)) return {};
    return {form, {static_cast<int64_t>(*value)}};
  };
  return {Form("Something other than the optimizer moves the weights between two of its "
               "steps{0}{1}{2}, and the loss rises each time{3}.",
               "在优化器的两次更新之间，有优化器之外的代码改变了权重{0}{1}{2}"
               "，每次损失都上升{3}。"),
          {whole(relation.count, Form(", {0} times so far", "，至今 {0} 次")),
           finding.since ? Sentence(Form(", first before step {0}", "，首次在第 {0} 步之前"),
                                    {*finding.since})
                         : Sentence(),
           whole(relation.times,
                 Form(", {0} times as far as a usual step", "，幅度为通常一步的 {0} 倍")),
           relation.loss_before && relation.loss_after
               ? Sentence(Form(", from {0} to {1} in the median", "，中位数从 {0} 升到 {1}"),
                          {Number(*relation.loss_before, 3), Number(*relation.loss_after, 3)})
               : Sentence()}};
}

// Told by the calls of a step, of a loss beside others.
Sentence MixedScale(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  const Sentence scale =
      relation.scale ? Sentence(Form(" ({0} here)", "（此处为 {0}）"), {Number(*relation.scale)})
                     : Sentence();
  const Sentence other =
      relation.at == finding.source
          ? Sentence(Form("another part of the same loss", "同一损失的另一部分"))
          : Sentence(Form("the one at {0}", "{0} 处的损失"), {EscapeControl(relation.at, 300)});
  if (relation.power.value_or(0) > 0) {
    return {Form("backward(){0} derives a loss that was multiplied by the loss scale{1} more often "
                 "than {2}: scaler.step() divides by it once, so what is left drowns the rest.",
                 "backward(){0} 所求导的损失乘以损失缩放{1}的次数多于{2}："
                 "scaler.step() 只除以它一次，剩余部分会淹没其他梯度。"),
            {AtPlace(place), scale, other}};
  }
  return {Form("backward(){0} derives a loss that was not multiplied by the loss scale{1}, unlike "
               "{2}: scaler.step() divides its gradients by the scale all the same, and next to "
               "nothing is left of them.",
               "与{2}不同，backward(){0} 所求导的损失没有乘以损失缩放{1}："
               "scaler.step() 仍会把它的梯度除以该缩放，几乎什么都不剩。"),
          {AtPlace(place), scale, other}};
}

Sentence ScaleDependent(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  if (!relation.at.empty()) return MixedScale(finding, place);
  const Sentence scale =
      relation.scale ? Sentence(Form(" ({0} here)", "（此处为 {0}）"), {Number(*relation.scale)})
                     : Sentence();
  const double power = relation.power.value_or(0);
  const double whole = std::round(power);
  if (whole != 0 && std::fabs(power - whole) < kWholePower) {
    Sentence text(
        whole > 0 ? Form("The gradients that the optimizer gets depend on the loss scale{0}: they "
                         "are multiplied by it{1}, in {2}.",
                         "优化器得到的梯度依赖于损失缩放{0}：它们乘了它{1}，涉及{2}。")
                  : Form("The gradients that the optimizer gets depend on the loss scale{0}: they "
                         "are divided by it{1}, in {2}.",
                         "优化器得到的梯度依赖于损失缩放{0}：它们除以了它{1}，涉及{2}。"),
        {scale,
         std::fabs(whole) > 1 ? Sentence(Form(" {0} times", " {0} 次"), {Number(std::fabs(whole))})
                              : Sentence(),
         Parameters(relation)});
    text += HowScaled(relation, whole);
    return text;
  }
  return {Form("The gradients that the optimizer gets depend on the loss scale{0}: twice the scale "
               "multiplies them by {1}, in {2}. The {3}{4} brings together what carries the "
               "scale and what does not.",
               "优化器得到的梯度依赖于损失缩放{0}：缩放加倍时它们变为 {1} 倍，"
               "涉及{2}。{3}{4}把带缩放与不带缩放的数值合在了一起。"),
          {scale, Number(std::exp2(power), 6), Parameters(relation), OperatorNoun(finding.op),
           AtPlace(place)}};
}

// "FP16" of torch's name of a format.
std::string WordOfFormat(const std::string& dtype) {
  if (dtype == "float16") return "FP16";
  return dtype == "bfloat16" ? "BF16" : "16";
}

// " (such as fc.weight)"
Sentence SuchAs(const ShadowRelation& relation) {
  const Sentence names = Listed(relation.parameters, 0);
  if (names.empty()) return {};
  return {Form(" (such as {0})", "（例如 {0}）"), {names}};
}

Sentence StateNarrowed(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  const auto percent = PercentOf(relation.share);
  if (!relation.given.empty()) {
    return {Form("The state {0} of {1} was saved in FP32, and the load{2} made {3} of it, the type "
                 "of the weights; the optimizer goes on with it in {3}.",
                 "状态 {0}（{1}）以 FP32 保存，载入{2}将其转换为权重的类型 {3}，"
                 "优化器以 {3} 继续使用。"),
            {relation.what.empty() ? Sentence(Form("of the optimizer", "优化器"))
                                   : Sentence(EscapeControl(relation.what, 80)),
             Parameters(relation), AtPlace(place), WordOfFormat(finding.dtype)}};
  }
  Sentence text(
      Form("The state {0} of {1}{2} came back from a checkpoint with the values of {3} bits{4}, "
           "and the optimizer goes on with them in FP32.",
           "状态 {0}（{1}）{2}从检查点恢复时只有 {3} 位的数值{4}，优化器以 FP32 继续使用它们。"),
      {relation.what.empty() ? Sentence(Form("of the optimizer", "优化器"))
                             : Sentence(EscapeControl(relation.what, 80)),
       Parameters(relation), AtPlace(place), WordOfFormat(finding.dtype),
       relation.at.empty() ? Sentence()
                           : Sentence(Form("; it was loaded at {0}", "；载入于 {0}"),
                                      {EscapeControl(relation.at, 300)})});
  if (percent && *percent >= 1) {
    text += {Form("{0} % of these elements are 0 although they should not be: the next update "
                  "divides by 0 plus eps there and is far too large.",
                  "其中 {0} % 的元素本不应为 0 却是 0：下一次更新在那里除以 0 加 eps，因此过大。"),
             {*percent}};
  }
  return text;
}

Sentence Recast(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  const bool often = relation.count && *relation.count >= 2 && *relation.count < 1e9;
  if (relation.what == "buffers") {
    return {
        Form("Buffers{0} were rounded to {1}{2} by a cast of their module and are in FP32 "
             "again: the training goes on with the rounded values.",
             "缓冲区{0}因其模块的转换被舍入为 {1}{2}，之后又回到 FP32：训练以舍入后的数值继续。"),
        {SuchAs(relation), WordOfFormat(finding.dtype), AtPlace(place)}};
  }
  return {Form("Weights{0} were rounded to {1}{2} between two steps of the optimizer{3}, and the "
               "training goes on with the rounded values.",
               "权重{0}在优化器的两次更新之间被舍入为 {1}{2}{3}，训练以舍入后的数值继续。"),
          {SuchAs(relation), WordOfFormat(finding.dtype), AtPlace(place),
           often ? Sentence(Form(", {0} times so far", "，至今 {0} 次"),
                            {static_cast<int64_t>(*relation.count)})
                 : Sentence()}};
}

Sentence NonfiniteKept(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  const bool often = relation.count && *relation.count >= 2 && *relation.count < 1e9;
  return {Form("A step was skipped because its gradients are not finite, and they were still in "
               ".grad{0} when the next backward pass began{1}{2}: what it computes is added to "
               "them, so no later step can be finite.",
               "某一步因梯度非有限而被跳过，但下一次反向传播{1}开始时它们仍在 .grad "
               "中{0}{2}：新的梯度累加在其上，此后的每一步都不可能有限。"),
          {SuchAs(relation), AtPlace(place),
           often ? Sentence(Form(", {0} times so far", "，至今 {0} 次"),
                            {static_cast<int64_t>(*relation.count)})
                 : Sentence()}};
}

Sentence StandsStill(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  const bool often = relation.count && *relation.count >= 2 && *relation.count < 1e9;
  if (finding.dtype == "float32") {
    const bool is_other = finding.proof == Proof::kExcluded;
    return {
        Form("An average of the weights in FP32{0} is written in every step and keeps its "
             "values, while the network's weights have moved away from it: {1}.",
             "FP32 格式的权重平均值{0}每步都被写入却保持原值，而网络的权重已经离开：{1}。"),
        {AtPlace(place),
         is_other ? Form("the weights that it takes are not those that are trained (a copy, or "
                         "parameters that were replaced since)",
                         "它取的权重不是正在训练的权重（是副本，或参数后来被替换）")
                  : Form("nothing of them is added to it, as where the decay is 1 (0.9999 in 16 "
                         "bits is 1)",
                         "没有加入任何新权重，例如衰减系数为 1（0.9999 在 16 位中是 1）")}};
  }
  if (relation.what.starts_with("A metric")) {
    return {Form("ReduceLROnPlateau lowers the learning rate by a metric in {0}{1}, as if nothing "
                 "got better; in FP64 it did{2}, by less than a step of the format.",
                 "ReduceLROnPlateau 依据 {0} 格式的指标{1}降低学习率，仿佛没有改进；"
                 "而在 FP64 中有改进{2}，只是小于该格式的一步。"),
            {WordOfFormat(finding.dtype), AtPlace(place),
             often ? Sentence(Form(" at {0} of the steps looked at", "（在所查看的 {0} 步）"),
                              {static_cast<int64_t>(*relation.count)})
                   : Sentence()}};
  }
  return {Form("{0} in {1}{2} is written{3} and keeps its values, while what it follows has moved "
               "away from it: each change is smaller than half a step of the format.",
               "{1} 格式的{0}{2}被写入{3}却保持原值，而它所跟随的数值已经离开："
               "每次变化都小于该格式的半步。"),
          {relation.what.empty() ? Sentence(Form("An average", "某个平均值"))
                                 : Sentence(EscapeControl(relation.what, 120)),
           WordOfFormat(finding.dtype), AtPlace(place),
           often ? Sentence(Form(" {0} times", " {0} 次"), {static_cast<int64_t>(*relation.count)})
                 : Sentence()}};
}

Sentence SavedOtherwise(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  const Sentence what = relation.what.empty() ? Sentence(Form("a state", "某个状态"))
                                              : Sentence(EscapeControl(relation.what, 120));
  if (finding.dtype.empty()) {
    return {Form("The file that is saved{0} holds {1} beside the optimizer's state of now: a "
                 "training that goes on from it does not go on where this one stands.",
                 "保存的文件{0}在优化器的当前状态之外包含{1}：由它继续的训练不会从当前位置继续。"),
            {AtPlace(place), what}};
  }
  const auto percent = PercentOf(relation.share);
  return {
      Form("The file that is saved has {0} in {1}{2}, which is held in more bits: {3} % of the "
           "elements become 0 or infinite there and are neither here.",
           "保存的文件以 {1} 存放{0}{2}，而训练以更多位数持有它：其中 {3} % 的元素在文件中变为 0 "
           "或无穷，而在训练中并非如此。"),
      {what, WordOfFormat(finding.dtype), AtPlace(place), percent.value_or(0)}};
}

Sentence StateOfAnother(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  return {
      Form("The optimizer's state that was loaded{0} belongs to other parameters: the gradients "
           "of {1} do not fit their moments{2}, which were saved in another order.",
           "载入{0}的优化器状态属于其他参数：{1}的梯度与其矩不符{2}，保存时的顺序不同。"),
      {AtPlace(place), Parameters(relation),
       relation.what.empty()
           ? Sentence()
           : Sentence(Form(" (those of the first fit {0})", "（第一个的矩与 {0} 相符）"),
                      {EscapeControl(relation.what, 200)})}};
}

// The kinds that are relations, and what they are called in a line.
constexpr std::pair<FindingKind, std::string_view> kRelationNouns[] = {
    {FindingKind::kNoGradient, "parameters that get no gradient"},
    {FindingKind::kNotUpdated, "parameters that no optimizer holds"},
    {FindingKind::kNotZeroed, "gradients that were not set to zero"},
    {FindingKind::kNotRestored, "states that were not restored"},
    {FindingKind::kMovedOnSkip, "a state that goes on in skipped steps"},
    {FindingKind::kScaleDependent, "gradients that depend on the loss scale"},
    {FindingKind::kLoadUndone, "a load that the next step undoes"},
    {FindingKind::kPartialCopy, "buffers of a copy that do not follow"},
    {FindingKind::kDroppedGradient, "gradients that are dropped"},
    {FindingKind::kEmptyStep, "steps without a gradient"},
    {FindingKind::kMovedWeights, "weights that something else moves"},
    {FindingKind::kStateNarrowed, "a state that came back in 16 bits"},
    {FindingKind::kRecast, "weights that were rounded to 16 bits"},
    {FindingKind::kNonfiniteKept, "gradients that are not finite and were kept"},
    {FindingKind::kStandsStill, "an average that stands still"},
    {FindingKind::kSavedOtherwise, "a file that holds something else"},
    {FindingKind::kStateOfAnother, "moments of other parameters"},
    {FindingKind::kNotReproduced, "an operator that does not give the same bits again"}};

}  // namespace

std::string_view RelationNoun(const Word<FindingKind>& kind) {
  for (const auto& [relation, words] : kRelationNouns) {
    if (kind == relation) return words;
  }
  return {};
}

bool IsRelation(const Word<FindingKind>& kind) { return !RelationNoun(kind).empty(); }

Sentence RelationSentence(const ShadowFinding& finding, const std::string& place) {
  if (finding.kind == FindingKind::kNoGradient) return NoGradient(finding, place);
  if (finding.kind == FindingKind::kNotUpdated) return NotUpdated(finding, place);
  if (finding.kind == FindingKind::kNotZeroed) return NotZeroed(finding, place);
  if (finding.kind == FindingKind::kNotRestored) return NotRestored(finding, place);
  if (finding.kind == FindingKind::kMovedOnSkip) return MovedOnSkip(finding, place);
  if (finding.kind == FindingKind::kLoadUndone) return LoadUndone(finding, place);
  if (finding.kind == FindingKind::kDroppedGradient) return DroppedGradient(finding, place);
  if (finding.kind == FindingKind::kEmptyStep) return EmptyStep(finding, place);
  if (finding.kind == FindingKind::kMovedWeights) return MovedWeights(finding);
  if (finding.kind == FindingKind::kPartialCopy) return PartialCopy(finding, place);
  if (finding.kind == FindingKind::kStateNarrowed) return StateNarrowed(finding, place);
  if (finding.kind == FindingKind::kRecast) return Recast(finding, place);
  if (finding.kind == FindingKind::kNonfiniteKept) return NonfiniteKept(finding, place);
  if (finding.kind == FindingKind::kStandsStill) return StandsStill(finding, place);
  if (finding.kind == FindingKind::kSavedOtherwise) return SavedOtherwise(finding, place);
  if (finding.kind == FindingKind::kStateOfAnother) return StateOfAnother(finding, place);
  if (finding.kind == FindingKind::kNotReproduced) return NotReproduced(finding, place);
  return ScaleDependent(finding, place);
}

}  // namespace mpnanny::runs
