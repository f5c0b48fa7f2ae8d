#include "engines/diagnosis/causes/measured_fix.h"

#include <cmath>
#include <optional>
#include <utility>

#include "base/text.h"
#include "engines/diagnosis/facts/trend.h"
#include "engines/runs/operator_words.h"
#include "engines/runs/relation_text.h"
#include "engines/runs/shadow_text.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Number;
using runs::Sentence;

constexpr size_t kPlaceBytes = 200;

// More than a GradScaler begins with is no loss scale any more.
constexpr double kMostScale = 65536.0;

// "at train.py:40 (lines 38–40)": where to change something.
Sentence WhereToChange(const runs::ShadowFinding& finding) {
  const std::vector<std::string> lines = LinesToChange(finding);
  if (lines.empty()) return Form("there", "此处");
  const std::string first = EscapeControl(lines.front(), kPlaceBytes);
  if (lines.size() == 1) return {Form("at {0}", "{0} 处"), {first}};
  return {Form("at {0} ({1})", "{0}（{1}）处"), {first, runs::LinesText(lines, lines.front())}};
}

std::string WideFormat(const runs::ShadowFinding& finding) {
  return finding.cure && finding.cure->what == "float64" ? "FP64" : "FP32";
}

Sentence FixOfLostChange(const runs::ShadowFinding& finding) {
  return {Form("Keep the value that is changed {0} in {1} (FP32 master weights, an FP32 average or "
               "counter) and cast a copy of it where 16 bits are wanted; or round stochastically, "
               "or keep what is lost and add it next time (Kahan).",
               "把{0}所改变的值保存为 {1}（FP32 主权重、"
               "FP32 的平均值或计数器），在需要 16 位的地方使用它的转换副本；"
               "或者采用随机舍入，或者保留丢失的部分、下次再加上（Kahan）。"),
          {WhereToChange(finding), WideFormat(finding)}};
}

// Of a relation between states that is broken; empty of any other kind.
Sentence FixOfRelation(const runs::ShadowFinding& finding) {
  const Word<FindingKind>& kind = finding.kind;
  if (kind == FindingKind::kNoGradient) {
    return {
        Form(
            "Let the gradient pass {0}: take the detach() or no_grad() away, use an operation that "
            "has a derivative, or a straight-through estimator, x + (rounded(x) - x).detach(). If "
            "these parameters are not to train, say so with requires_grad_(False).",
            "让梯度通过{0}：去掉 detach() 或 no_grad()，使用有导数的运算，"
            "或使用直通估计器 x + (rounded(x) - x).detach()。"
            "若这些参数不需要训练，用 requires_grad_(False) 说明。"),
        {WhereToChange(finding)}};
  }
  if (kind == FindingKind::kNotUpdated && !finding.source.empty()) {
    return {Form("Make the optimizer after the change {0}, or copy into the parameters that it "
                 "holds (with torch.no_grad(): parameter.copy_(new)).",
                 "在{0}的更改之后再创建优化器，或者把新值复制到它所持有的参数中"
                 "（with torch.no_grad(): parameter.copy_(new)）。"),
            {WhereToChange(finding)}};
  }
  if (kind == FindingKind::kNotUpdated && finding.relation.stranded.value_or(0) >= 1) {
    return Form(
        "Replace the module first, and then give the optimizer the parameters of the model as it "
        "trains (collect them anew, also those of parameter groups).",
        "先替换模块，再把实际训练的模型的参数交给优化器（重新收集，参数组也一样）。");
  }
  if (kind == FindingKind::kNotUpdated) {
    return Form(
        "Give these parameters to the optimizer; if they are not to train, say so with "
        "requires_grad_(False).",
        "把这些参数交给优化器；若它们不需要训练，"
        "用 requires_grad_(False) 说明。");
  }
  if (kind == FindingKind::kNotZeroed) {
    if (!finding.relation.at.empty()) {
      return Form(
          "Call zero_grad() of this optimizer right before the backward() of its own loss, or keep "
          "the other loss's gradients away from its parameters (requires_grad_(False)).",
          "在该优化器自己的损失的 backward() 之前调用它的 zero_grad()，"
          "或者不让另一个损失的梯度到达它的参数（requires_grad_(False)"
          "）。");
    }
    return Form("Call optimizer.zero_grad() once for each update, before its first backward().",
                "每次更新都在其首个 backward() 之前调用一次 "
                "optimizer.zero_grad()。");
  }
  if (kind == FindingKind::kNotRestored && !finding.relation.at.empty()) {
    return {Form("Save these states with the weights {0}, and load them with them.",
                 "在{0}把这些状态连同权重一起保存，并一起载入。"),
            {WhereToChange(finding)}};
  }
  if (kind == FindingKind::kNotRestored && finding.relation.saved.empty()) {
    return {Form("Rename what is loaded to the model's names {0}, and read what load_state_dict() "
                 "returns: with strict=False it raises nothing.",
                 "在{0}把所载入的内容改成模型的名称，并检查 load_state_dict() 的返回值："
                 "strict=False 时它不会报错。"),
            {WhereToChange(finding)}};
  }
  if (kind == FindingKind::kNotRestored) {
    return {
        Form("Restore what was saved with it as well, {0}.", "在{0}把一起保存的其余状态也恢复。"),
        {WhereToChange(finding)}};
  }
  if (kind == FindingKind::kMovedOnSkip) {
    return Form(
        "Advance it only where the optimizer's step was made; a GradScaler skipped it if "
        "scaler.get_scale() is smaller after scaler.update() than before.",
        "只在优化器真正更新之后才推进它；若 scaler.update() 之后 "
        "scaler.get_scale() 变小，则 GradScaler 跳过了该步。");
  }
  if (kind == FindingKind::kLoadUndone) {
    return Form(
        "Restore the optimizer's own copies of the weights together with them: load its state, or "
        "make it after the weights were loaded.",
        "连同权重一起恢复优化器自己保存的权重副本：载入它的状态，"
        "或在权重载入之后再创建它。");
  }
  if (kind == FindingKind::kDroppedGradient) {
    return Form("Call zero_grad() once for each step of the optimizer, not before each backward().",
                "优化器每更新一步只调用一次 zero_grad()，"
                "而不是在每个 backward() 之前。");
  }
  if (kind == FindingKind::kEmptyStep) {
    return Form(
        "Make the optimizer for the model that is trained, after that was built, loaded or wrapped "
        "for the last time, and load the optimizer's state into it.",
        "在模型最后一次构建、载入或包装之后，再为所训练的模型创建优化"
        "器，并把优化器状态载入其中。");
  }
  if (kind == FindingKind::kMovedWeights) {
    return Form(
        "Find what writes into the weights outside of optimizer.step(): an average or other "
        "weights that are put in for an evaluation and not taken out again, what is kept to "
        "restore them without a copy (clone()), a load.",
        "找出在 optimizer.step() 之外写入权重的代码：为评估而换入、"
        "之后没有换回的平均值或其他权重，为恢复权重而保存却没有复制（"
        "clone()）的内容，或一次载入。");
  }
  if (kind == FindingKind::kPartialCopy) {
    return Form(
        "Copy or average the buffers with the parameters (AveragedModel(…, use_buffers=True)), or "
        "compute them anew before the copy is used (torch.optim.swa_utils.update_bn).",
        "连同参数一起复制或平均缓冲区（AveragedModel(…, "
        "use_buffers=True)），或在使用副本之前重新计算它们（"
        "torch.optim.swa_utils.update_bn）。");
  }
  if (kind == FindingKind::kStateNarrowed && !finding.relation.given.empty()) {
    return {Form("Put the state back in FP32 after the load {0}: load_state_dict() of torch's "
                 "optimizers casts each state to the type of its parameter.",
                 "在{0}载入之后把状态恢复为 FP32：torch 优化器的 load_state_dict() "
                 "会把每个状态转换为其参数的类型。"),
            {WhereToChange(finding)}};
  }
  if (kind == FindingKind::kSavedOtherwise) {
    return {Form("Save what the training holds at that moment {0}: model.state_dict() anew each "
                 "time, and the optimizer's state as it is.",
                 "在{0}保存训练此刻所持有的内容：每次重新调用 model.state_dict()，"
                 "并原样保存优化器状态。"),
            {WhereToChange(finding)}};
  }
  if (kind == FindingKind::kStateOfAnother) {
    return {Form("Give the optimizer its parameters in the order in which they were saved before "
                 "the load {0}, or sort the saved states by the parameters' names.",
                 "在{0}载入之前，按保存时的顺序把参数交给优化器，或按参数名称整理保存的状态。"),
            {WhereToChange(finding)}};
  }
  if (kind == FindingKind::kStateNarrowed) {
    return {Form("Save the optimizer's state as it is ({0}): second moments need FP32, and a file "
                 "in 16 bits is good for weights that are only used, not trained on.",
                 "原样保存优化器状态（{0}）：二阶矩需要 FP32，"
                 "16 位的文件只适合不再训练的权重。"),
            {WhereToChange(finding)}};
  }
  if (kind == FindingKind::kRecast) {
    return {Form("Cast a copy {0}, not the model that is trained (copy.deepcopy(model).half(), or "
                 "torch.autocast for the evaluation): casting back does not bring the bits back.",
                 "在{0}转换一个副本，而不是正在训练的模型（copy.deepcopy(model).half()，"
                 "或评估时使用 torch.autocast）：再转换回来并不能恢复丢失的位。"),
            {WhereToChange(finding)}};
  }
  if (kind == FindingKind::kNonfiniteKept) {
    return Form(
        "Call optimizer.zero_grad() before every backward() that begins a new step, also after a "
        "step that was skipped.",
        "在每个新的一步的 backward() 之前调用 optimizer.zero_grad()，被跳过的步之后也一样。");
  }
  if (kind == FindingKind::kStandsStill) {
    if (finding.dtype == "float32") {
      return Form(
          "Take the weights of the network that is trained, by asking it for its parameters "
          "in every step, and compute decay and 1 - decay as Python numbers or in FP32.",
          "每一步都向正在训练的网络取参数，并用 Python 数或 FP32 计算衰减系数与 1 - decay。");
    }
    return {Form("Keep what is averaged or counted {0} in FP32 (a counter as an integer), and cast "
                 "a copy of it where 16 bits are wanted.",
                 "把{0}的平均值或计数保存为 FP32（计数用整数），需要 16 位时转换其副本。"),
            {WhereToChange(finding)}};
  }
  if (kind == FindingKind::kNotReproduced && finding.relation.each_time) {
    return Form(
        "Look at the operator itself: threads or atomic additions without an order, memory that it "
        "reads before it writes. If it is meant to be so, declare it "
        "(torch.Tag.nondeterministic_seeded).",
        "检查该算子本身：没有固定次序的线程或原子加法，或先读后写的内存。若本应如此，请加以声明"
        "（torch.Tag.nondeterministic_seeded）。");
  }
  if (kind == FindingKind::kNotReproduced) {
    return Form(
        "Run the same steps on another device. If it stays with this one, take the device out and "
        "have it tested (ECC counters, the vendor's diagnostics); if it moves along, look for a "
        "race in that operator. Go back to a checkpoint from before.",
        "在另一台设备上运行相同的步。若问题留在这台设备上，就把它撤下检测（ECC "
        "计数、厂商诊断）；若随程序而去，就在该算子中查找竞态。并回到此前的检查点。");
  }
  if (kind == FindingKind::kScaleDependent) {
    return Form(
        "Call backward() on scaler.scale(loss), call scaler.unscale_(optimizer) once before "
        "gradients are clipped, measured, changed or added to, and let scaler.step(optimizer) make "
        "the step.",
        "对 scaler.scale(loss) 调用 backward()，在裁剪、测量、"
        "修改或累加梯度之前调用一次 scaler.unscale_(optimizer)，"
        "并由 scaler.step(optimizer) 执行更新。");
  }
  return {};
}

// A backward pass is linear in its loss, so what leaves FP16's range there has a factor that brings
// it back; a loss scale that is fixed, or a sum in the place of a mean, is what made it so large.
std::optional<double> SmallerLoss(const runs::ShadowFinding& finding) {
  const double largest = LargestFinite(runs::ResultDtype(finding));
  if (finding.kind != FindingKind::kRange || finding.phase != Phase::kBackward ||
      !finding.magnitude || runs::ResultDtype(finding) != "float16" ||
      !(*finding.magnitude > largest)) {
    return std::nullopt;
  }
  const double factor = std::exp2(std::ceil(std::log2(*finding.magnitude / largest)));
  if (!(factor <= kMostScale)) return std::nullopt;
  return factor;
}

Sentence FixOfPrecision(const runs::ShadowFinding& finding) {
  const Sentence where = WhereToChange(finding);
  const std::string wide = WideFormat(finding);
  if (finding.kind == FindingKind::kLostChange) return FixOfLostChange(finding);
  if (finding.kind == FindingKind::kIntegers && !runs::LooksUp(finding.op) &&
      !runs::Chooses(finding.op)) {
    return {Form("Keep the numbers {0} in {1}, or in an integer type where all of them are whole.",
                 "把{0}的数保存为 {1}，若全部是整数也可用整数类型。"),
            {where, wide}};
  }
  if (finding.kind == FindingKind::kClipped) {
    return {Form("Scale the values before the cast {0} so that they fit, or keep them in {1}.",
                 "在{0}的转换之前缩放数值，使其能够放下，或把它们保持为 {1}。"),
            {where, wide}};
  }
  if (finding.phase == Phase::kOptimizer) {
    return {
        Form(
            "Keep the weights, gradients and states that are computed with {0} in {1}: {1} weights "
            "under autocast, or {1} master copies of 16-bit weights.",
            "把{0}所用的权重、梯度和状态保存为 {1}：autocast 之下的 {1} 权重，或 16 位权重的 {1} "
            "主副本。"),
        {where, wide}};
  }
  const Sentence inputs(
      Form("compute {0} in {1}: convert the inputs there (.float(), .double()), within "
           "torch.autocast(device_type, enabled=False) where autocast is on",
           "{0}用 {1} 计算：在那里转换输入（.float()、.double()），"
           "若启用了 autocast 则放在 torch.autocast(device_type, "
           "enabled=False) 之中"),
      {where, wide});
  Sentence fix =
      finding.kind == FindingKind::kRange || finding.kind == FindingKind::kFlushed
          ? Sentence(
                Form("{0}, and leave the result in {1} until it is within the narrower format's "
                     "range again: a cast back right there loses it as before.",
                     "{0}，并让结果保持为 {1}，直到它重新回到较窄格式的范围之内："
                     "立即转换回去会和之前一样丢失它。"),
                {inputs, wide})
          : Sentence(
                Form("{0}, and cast the result back afterwards.", "{0}，之后再把结果转换回去。"),
                {inputs});
  if (const auto factor = SmallerLoss(finding)) {
    fix = {Form("A backward pass is linear in its loss: with a loss that is {0} times smaller this "
                "stays in FP16's range. Divide the loss scale by that, or let torch.amp.GradScaler "
                "find one and leave out the steps that overflow; take a mean where the loss is a "
                "sum. Or: {1}",
                "反向传播对损失是线性的：损失缩小到 {0} 分之一，"
                "这里就在 FP16 的范围之内。把损失缩放除以这个数，"
                "或让 torch.amp.GradScaler 寻找缩放并跳过溢出的步；"
                "若损失是求和，改用平均。或者：{1}"),
           {Number(*factor, 6), std::move(fix)}};
  } else {
    fix = std::move(fix).Capital();
  }
  if (finding.kind == FindingKind::kFlushed && finding.phase == Phase::kBackward) {
    fix += Form(
        "For gradients that are too small for FP16 a loss scale (torch.amp.GradScaler) does the "
        "same.",
        "对 FP16 来说太小的梯度，损失缩放（torch.amp.GradScaler）有同样"
        "的作用。");
  }
  if (finding.kind == FindingKind::kAmplified &&
      (runs::TakesAway(finding.op) || runs::AddsUp(finding.op))) {
    fix += Form("Or rewrite it so that nearly equal numbers are not subtracted.",
                "或者改写算式，避免几乎相等的数相减。");
  }
  return fix;
}

Sentence MaskFirst() {
  return Form(
      "Rows that are not to count are taken out before anything is multiplied by them: a mask on "
      "the result does not help the gradient, in which 0 times NaN is NaN.",
      "不应计入的行要在与任何数相乘之前就去掉："
      "对结果做掩码无助于梯度，因为其中 0 乘 NaN 仍是 NaN。");
}

// Of what was not finite before the step began: whose it is, and where that came from.
Sentence FixOfCarried(const runs::ShadowFinding& finding) {
  const runs::ShadowCarrier& carrier = finding.carrier;
  const Sentence whose = carrier.whose.empty() ? Sentence(Form("it", "它"))
                                               : Sentence(EscapeControl(carrier.whose, 120));
  const Sentence at = carrier.at.empty() ? Sentence()
                                         : Sentence(Form(" at {0}", "（{0}）"),
                                                    {EscapeControl(carrier.at, kPlaceBytes)});
  if (carrier.kind == CarrierKind::kUnwritten) {
    Sentence fix(Form("Write every element{0} before it is read (torch.zeros, not torch.empty), or "
                      "leave the rows out that nothing writes.",
                      "在读取之前写入每个元素{0}（用 torch.zeros 而不是 torch.empty"
                      "），或去掉没有写入的行。"),
                 {at});
    fix += MaskFirst();
    return fix;
  }
  if (carrier.kind == CarrierKind::kState) {
    return {Form("Find what wrote {0}{1}: a checkpoint that holds it (`mpnanny analyze FILE` names "
                 "the tensors of one that are not finite), or an earlier step of another run. Load "
                 "or reset that state.",
                 "找出是什么写入了 {0}{1}：含有它的检查点（`mpnanny analyze "
                 "FILE` 会指出其中非有限的张量），或另一次训练中更早的一步。"
                 "重新载入或重置该状态。"),
            {whose, at}};
  }
  Sentence fix(
      Form("Find where {0} got values that are not finite{1}, and repair or leave out those rows.",
           "找出 {0} 在何处得到了非有限的值{1}，修复或去掉那些行。"),
      {whose, at});
  fix += MaskFirst();
  return fix;
}

struct Change {
  Sentence what;
  bool masks = false;  // rows are to be masked first
};

// What to change where an operator gives no finite value in any format. It begins with a small
// letter.
Change WhatToChange(const runs::ShadowFinding& finding) {
  const Sentence where = WhereToChange(finding);
  if (finding.phase == Phase::kBackward && runs::IsSteepAtZero(finding.forward_op)) {
    return {
        {Form("add a small number (eps) inside the {0} {1}, or take out what is exactly 0 before "
              "it (torch.where on its input). Masking the result afterwards does not help the "
              "gradient.",
              "在{1}的{0}之内加一个小数（eps），或在它之前去掉恰好为 0 的输入（对其输入用 "
              "torch.where）。事后对结果做掩码无助于梯度。"),
         {runs::OperatorNoun(finding.forward_op), where}}};
  }
  switch (runs::KindOfOperator(finding.op)) {
    case runs::OperatorKind::kConstant:
      return {{Form("take the constant away that is put in {0}, or what it stands for.",
                    "去掉{0}放入的常量，或它所代表的内容。"),
               {where}},
              true};
    case runs::OperatorKind::kMoves:
      return {{Form("find what writes the values that are passed on {0}: the operator itself makes "
                    "none.",
                    "找出{0}所传递的数值由谁写入：该算子自身不产生数值。"),
               {where}},
              true};
    case runs::OperatorKind::kDomain:
      return {
          {Form("keep the operator {0} away from inputs that it is not defined for (0, negative "
                "numbers, rows without an element): clamp or mask its input, or add a small "
                "number inside the root, the logarithm or the divisor. Masking the result "
                "afterwards does not help the gradient.",
                "不要让{0}的算子得到它没有定义的输入（0、负数、没有元素的行）："
                "对其输入做 clamp 或掩码，或在根号、对数或除数之内加一个小数。"
                "事后对结果做掩码无助于梯度。"),
           {where}}};
    case runs::OperatorKind::kOther:
      break;
  }
  return {{Form("look at what goes in {0}: with these inputs the result is not finite in any "
                "format. Bound or mask it before.",
                "查看{0}的输入：有了这些输入，结果在任何格式中都非有限。"
                "先对其限幅或做掩码。"),
           {where}}};
}

// What an operator was given where it is not defined, as far as that was measured.
Sentence FixOfUndefined(const runs::ShadowFinding& finding) {
  if (finding.was_bad_before) return FixOfCarried(finding);
  Change change = WhatToChange(finding);
  Sentence fix =
      finding.rounded_before
          ? Sentence(Form("Make what comes in there in FP32: it is held in 16 bits. Or {0}",
                          "把进入那里的数值改用 FP32 生成：它目前以 16 位保存。或者{0}"),
                     {std::move(change.what)})
          : std::move(change.what).Capital();
  if (change.masks) fix += MaskFirst();
  return fix;
}

}  // namespace

Sentence NearLimitFix(const runs::ShadowFinding& finding) {
  const std::string_view op = runs::OperatorBaseName(finding.op);
  if (op.starts_with("exp")) {
    return {Form("Subtract the largest of a row before the exponential {0}, which changes no ratio "
                 "(as softmax and logsumexp do), or bound what goes in.",
                 "在{0}求指数之前减去该行的最大值，这不改变任何比值（softmax 和 "
                 "logsumexp 就是这样做的），或对输入限幅。"),
            {WhereToChange(finding)}};
  }
  return {Form("Bound or scale what is computed {0}, or use a format of wider range.",
               "对{0}所计算的数值限幅或缩放，或使用范围更宽的格式。"),
          {WhereToChange(finding)}};
}

Sentence MeasuredFix(const ShadowEvidence& measured, const Mechanism& mechanism) {
  const runs::ShadowFinding& finding = measured.Lead(mechanism).finding;
  if (finding.kind == FindingKind::kDiverged) {
    return Form(
        "Lower the learning rate or warm it up longer, and clip gradients (after unscaling them).",
        "降低学习率或延长预热，并裁剪梯度（在反缩放之后）。");
  }
  if (runs::IsRelation(finding.kind)) return FixOfRelation(finding);
  if (finding.lost_before) {
    return Form(
        "Mend what loses the change before it comes in there; nothing is wrong with this line.",
        "修正在它到达那里之前丢失变化的地方；这一行本身没有错。");
  }
  if (IsTinyChange(finding)) {
    return Form(
        "Raise the learning rate, or find why the gradient is so small; where small changes are "
        "right, sum them up apart or in FP64.",
        "提高学习率，或找出梯度为何如此之小；若小的变化是对的，"
        "则另行累加或用 FP64 累加。");
  }
  if (IsTooLargeForFp32(finding)) {
    return {
        Form("Find what made the values so large {0} or before it: a learning rate that is too "
             "high, weights or states that grow, a division by nearly 0, an exponential whose "
             "largest input is not subtracted first.",
             "找出{0}或更早是什么使数值变得如此之大：过高的学习率、不断增长的权重或状态、除以接近 "
             "0 的数、没有先减去最大输入的指数。"),
        {WhereToChange(finding)}};
  }
  if (finding.proof == Proof::kProven) {
    Sentence fix = FixOfPrecision(finding);
    if (finding.home.empty()) return fix;
    return {Form("Keep what gets its format at {0} in {1}, and cast a copy of it where fewer bits "
                 "are wanted. Or: {2}",
                 "把在 {0} 得到其格式的值保存为 {1}，在需要较少位数的地方使用转换副本。或者：{2}"),
            {EscapeControl(finding.home, kPlaceBytes), WideFormat(finding), std::move(fix)}};
  }
  if (finding.kind == FindingKind::kUndefined) return FixOfUndefined(finding);
  if (finding.proof == Proof::kExcluded) {
    return {Form("Change what is computed {0}; another format does not help.",
                 "改变{0}的计算；换一种格式没有帮助。"),
            {WhereToChange(finding)}};
  }
  if (finding.kind == FindingKind::kLostChange) return FixOfLostChange(finding);
  return {Form("Not established. Run the training once more with FP32 {0} and compare.",
               "尚未确定。{0}改用 FP32 再训练一次并比较。"),
          {WhereToChange(finding)}};
}

}  // namespace mpnanny::diagnosis
