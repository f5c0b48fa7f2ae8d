#include "engines/runs/shadow_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/layer_word.h"
#include "base/text.h"
#include "engines/runs/operator_words.h"
#include "engines/runs/ranks.h"
#include "engines/runs/relation_text.h"
#include "engines/runs/shadow_inputs.h"
#include "engines/runs/shadow_reach.h"
#include "engines/runs/show.h"
#include "numerics/format.h"

namespace mpnanny::runs {
namespace {

constexpr size_t kLinesShown = 6;

bool IsAny(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::pair<std::string_view, std::string_view> FileAndLine(std::string_view source) {
  const size_t colon = source.rfind(':');
  if (colon == std::string_view::npos) return {source, {}};
  return {source.substr(0, colon), source.substr(colon + 1)};
}

// The format of the result: of "bfloat16 → float16" the second.
std::optional<Format> FormatOf(const std::string& dtype) {
  constexpr std::string_view kArrow = "→";
  std::string_view name = dtype;
  if (const size_t arrow = name.rfind(kArrow); arrow != std::string_view::npos) {
    name.remove_prefix(arrow + kArrow.size());
  }
  while (name.starts_with(" ")) name.remove_prefix(1);
  return FormatFromName(name);
}

Sentence FormatWord(const ShadowFinding& finding) {
  const auto format = FormatOf(finding.dtype);
  return format ? Sentence(std::string(Info(*format).torch_name))
                : Sentence(Form("this format", "该格式"));
}

Sentence Elements() { return Form("elements", "元素"); }

Sentence ShareText(const std::optional<double>& share, const Sentence& of = Elements()) {
  if (!share) return {Form("some {0}", "部分{0}"), {of}};
  if (*share >= 1) return {Form("all {0}", "全部{0}"), {of}};
  return {Form("{0} of the {1}", "{0} 的{1}"), {Percent(*share), of}};
}

Sentence At(Sentence what, const std::string& source) {
  if (source.empty()) return what;
  return {Form("{0} at {1}", "{1} 处的{0}"), {std::move(what), ShownPlace(source)}};
}

// Of the updates as a whole: neither a format nor a module stands for them.
Sentence Diverged(const ShadowFinding& finding) {
  const ShadowGrowth& growth = finding.growth;
  Sentence values = growth.op.empty() ? Sentence(Form("values", "数值"))
                                      : Sentence(Form("the result of the {0}", "{0}的结果"),
                                                 {OperatorNoun(growth.op)});
  const Sentence grew =
      growth.growth && std::isfinite(*growth.growth)
          ? Sentence(Form("grew {0}-fold", "增长到 {0} 倍"), {Number(*growth.growth, 4)})
          : Sentence(Form("grew by orders of magnitude", "增长了若干数量级"));
  const Sentence left =
      FormatOf(finding.dtype)
          ? Sentence(Form("left the range of {0}", "超出 {0} 的范围"), {FormatWord(finding)})
          : Sentence(Form("overflowed", "溢出"));
  Sentence text(
      Form("{0} makes updates that are too large (learning rate): {1} {2} since the first shadow "
           "step and {3}",
           "{0}产生的更新过大（学习率）：自首个影子步以来，{1}{2}，并且{3}"),
      {At(OperatorNoun(finding.op), finding.source), At(std::move(values), growth.at), grew, left});
  if (!finding.share) return text;
  return {Form("{0} (Inf or NaN in {1})", "{0}（{1}为 Inf 或 NaN）"),
          {text, ShareText(finding.share)}};
}

// "bfloat16 subtraction at train.py:40", "conversion (float32 → float16) at …".
Sentence OperatorAt(const std::string& op, const std::string& raw_dtype,
                    const std::string& source) {
  const std::string dtype = EscapeControl(raw_dtype, 60);
  Sentence text = OperatorNoun(op);
  if (dtype.find("→") != std::string::npos) {
    text = {Form("{0} ({1})", "{0}（{1}）"), {text, dtype}};
  } else if (!dtype.empty()) {
    text = {Form("{0} {1}", "{0} {1}"), {dtype, text}};
  }
  return At(std::move(text), source);
}

// The gradient of an operator gives Inf or NaN: it is that operator that somebody wrote.
bool BreaksBackward(const ShadowFinding& finding) {
  return finding.phase == Phase::kBackward && !finding.forward_op.empty() &&
         !finding.was_bad_before &&
         (finding.kind == FindingKind::kUndefined || finding.kind == FindingKind::kRange);
}

Sentence Subject(const ShadowFinding& finding, std::string_view module) {
  const std::string layer = module.empty() ? "" : LayerWord(Name(module));
  const Sentence phase =
      BreaksBackward(finding)
          ? Sentence(Form("{0} of the {1}", "{1}的{0}"),
                     {PhaseNoun(finding.phase), OperatorNoun(finding.forward_op)})
          : PhaseNoun(finding.phase);
  const Sentence where = layer.empty()   ? phase
                         : phase.empty() ? Sentence(layer)
                                         : Sentence(Form("{0}, {1}", "{0}，{1}"), {layer, phase});
  Sentence text = OperatorAt(finding.op, finding.dtype, finding.source);
  if (where.empty()) return text;
  return {Form("{0} ({1})", "{0}（{1}）"), {std::move(text), where}};
}

// "a relative error of 0.4 % (from the bfloat16 addition at train.py:26)"
Sentence ErrorIn(const ShadowFinding& finding) {
  const auto& origin = finding.origin;
  if (!origin || origin->source.empty()) return Percent(*finding.error_in);
  return {Form("{0} (from the {1})", "{0}（来自 {1}）"),
          {Percent(*finding.error_in), OperatorAt(origin->op, origin->dtype, origin->source)}};
}

Sentence Amplified(const ShadowFinding& finding, const Sentence& subject) {
  const Sentence out =
      finding.error_out
          ? Percent(*finding.error_out)
          : Sentence(Form("one far larger than the values themselves", "远大于数值本身的误差"));
  const Sentence text =
      finding.error_in && *finding.error_in > 0
          ? Sentence(Form("{0} turns a relative error of {1} into {2}",
                          "{0}把相对误差从 {1} 放大到 {2}"),
                     {subject, ErrorIn(finding), out})
          : Sentence(Form("{0} makes a relative error of {1}", "{0}产生的相对误差为 {1}"),
                     {subject, out});
  if (TakesAway(finding.op)) {
    return {Form("{0}: cancellation (the operands are nearly equal, and what is left of them is "
                 "mostly rounding error)",
                 "{0}：相消（两个操作数几乎相等，剩下的主要是舍入误差）"),
            {text}};
  }
  if (AddsUp(finding.op)) {
    return {Form("{0}: its terms nearly cancel out, or many rounding errors add up",
                 "{0}：各项几乎相互抵消，或者许多舍入误差累加在一起"),
            {text}};
  }
  if (IsAny(OperatorBaseName(finding.op), {"to_copy", "copy"})) {
    return {Form("{0}: the format is too coarse for these values", "{0}：该格式对这些数值过于粗糙"),
            {text}};
  }
  return text;
}

Sentence Range(const ShadowFinding& finding, const Sentence& subject) {
  const Sentence text(
      Form("{0} gives Inf or NaN in {1}, where the same computation in FP64 stays finite",
           "{0}的{1}为 Inf 或 NaN，而同样的计算在 FP64 中保持有限"),
      {subject, ShareText(finding.share)});
  if (!finding.magnitude) return text;
  const auto format = FormatOf(finding.dtype);
  if (!format || *finding.magnitude <= Info(*format).max) {
    return {Form("{0} (up to {1})", "{0}（最大 {1}）"), {text, Number(*finding.magnitude, 4)}};
  }
  return {Form("{0} (up to {1}; {2} ends at {3})", "{0}（最大 {1}；{2} 的上限为 {3}）"),
          {text, Number(*finding.magnitude, 4), FormatWord(finding), Number(Info(*format).max, 6)}};
}

// Of an operator that looks numbers up among others, as searchsorted does, or chooses some of them.
Sentence WrongPlaces(const ShadowFinding& finding, const Sentence& subject) {
  const Form places("{0} finds another place than the same computation in FP64 for {1}",
                    "{0}为{1}找到的位置与同样的计算在 FP64 中找到的不同");
  const Form chosen("{0} chooses others than the same computation in FP64 for {1}",
                    "{0}对{1}的选择与同样的计算在 FP64 中的选择不同");
  const bool chooses = Chooses(finding.op);
  Sentence text(chooses ? chosen : places, {subject, ShareText(finding.share)});
  if (finding.magnitude && !chooses) {
    text = {Form("{0} (places go up to {1})", "{0}（位置最大 {1}）"),
            {text, Number(*finding.magnitude, 9)}};
  }
  const auto& origin = finding.origin;
  if (!origin || origin->source.empty()) return text;
  const Sentence since = OperatorAt(origin->op, origin->dtype, origin->source);
  if (!origin->error) {
    return {Form("{0}: what goes in is wrong since the {1}", "{0}：其输入自 {1}起就有误差"),
            {text, since}};
  }
  return {
      Form("{0}: what goes in is wrong by {1} since the {2}", "{0}：其输入自 {2}起有 {1} 的误差"),
      {text, Percent(*origin->error), since}};
}

Sentence Integers(const ShadowFinding& finding, const Sentence& subject) {
  if (LooksUp(finding.op) || Chooses(finding.op)) return WrongPlaces(finding, subject);
  Sentence text(Form("{0} changes {1}", "{0}改变了{1}"),
                {subject, ShareText(finding.share, Form("whole numbers", "整数"))});
  if (finding.magnitude) {
    text = {Form("{0} (up to {1})", "{0}（最大 {1}）"), {text, Number(*finding.magnitude, 9)}};
  }
  const auto format = FormatOf(finding.dtype);
  if (!format) return text;
  return {Form("{0}: {1} holds every whole number only up to {2}",
               "{0}：{1} 只能逐一表示不超过 {2} 的整数"),
          {text, FormatWord(finding), Number(std::exp2(Info(*format).mantissa_bits + 1), 9)}};
}

// It makes nothing itself: what it passes on was not finite before.
Sentence Carried(const ShadowFinding& finding, const Sentence& subject) {
  const ShadowCarrier& carrier = finding.carrier;
  const auto at = [&](Sentence what) -> Sentence {
    if (carrier.at.empty()) return what;
    return {Form("{0} ({1})", "{0}（{1}）"), {std::move(what), ShownPlace(carrier.at)}};
  };
  if (carrier.kind == CarrierKind::kUnwritten) {
    return {
        Form("{0} gives Inf or NaN in {1}, because {2}", "{0}的{1}为 Inf 或 NaN，因为{2}"),
        {subject, ShareText(finding.share),
         at(Form("it reads memory that nothing was written into", "它读取了从未写入过的内存"))}};
  }
  const Sentence whose = carrier.whose.empty() ? Sentence(Form("what goes in", "其输入"))
                                               : Sentence(EscapeControl(carrier.whose, 120));
  return {Form("{0} gives Inf or NaN in {1}, because {2} was not finite before the step began",
               "{0}的{1}为 Inf 或 NaN，因为{2}在该步开始之前就已经不是有限值"),
          {subject, ShareText(finding.share), at(whose)}};
}

// Of weights that are kept in too narrow a format; which one, only a shadow step shows.
Sentence RoundedBetween(const ShadowFinding& finding) {
  const Sentence share =
      ShareText(finding.share, Form("numbers that a step changes", "该步所改变的数值"));
  if (finding.source.empty()) {
    return {Form("The weights are rounded between two steps of the optimizer: {0} are back at "
                 "their old value before the next one",
                 "权重在优化器的两步之间被舍入：{0}在下一步之前又回到了原值"),
            {share}};
  }
  return {Form("The weights are rounded between two steps of the optimizer, by the {1}: {0} are "
               "back at their old value before the next one",
               "权重在优化器的两步之间被 {1}舍入：{0}在下一步之前又回到了原值"),
          {share, OperatorAt(finding.op, finding.dtype, finding.source)}};
}

// Why a gradient is not finite: a derivative that is infinite where the forward pass is not, and
// the 0 that an infinity is multiplied by.
Sentence WithSingular(Sentence text, const ShadowFinding& finding) {
  if (const auto& at = finding.derivative_at) {
    const Sentence value = Number(at->held, 4);
    if (std::isnan(at->held)) {
      text = {Form("{0}: it divides by 0 there", "{0}：它在那里除以 0"), {std::move(text)}};
    } else if (std::isfinite(at->reference) && at->reference != at->held) {
      text = {
          Form("{0}: the derivative of the {1} is infinite at {2}, and its input was rounded to "
               "that (in FP64 it is {3})",
               "{0}：{1}在 {2} 处的导数是无穷大，而其输入被舍入成了该值（在 FP64 中为 {3}）"),
          {std::move(text), OperatorNoun(finding.forward_op), value, Number(at->reference, 8)}};
    } else {
      text = {Form("{0}: the derivative of the {1} is infinite at {2}, which is its input there",
                   "{0}：{1}在 {2} 处的导数是无穷大，而其输入在那里正是该值"),
              {std::move(text), OperatorNoun(finding.forward_op), value}};
    }
  }
  for (const ShadowLine& zero : finding.meets) {
    const Sentence where = ShownPlace(zero.source);
    text = zero.op.empty()
               ? Sentence(Form("{0}; it meets a 0 from {1}, and 0 times infinity is NaN",
                               "{0}；它遇到来自 {1} 的 0，而 0 乘以无穷大是 NaN"),
                          {std::move(text), where})
               : Sentence(Form("{0}; it meets a 0 from {1} ({2}), and 0 times infinity is NaN",
                               "{0}；它遇到来自 {1}（{2}）的 0，而 0 乘以无穷大是 NaN"),
                          {std::move(text), where, OperatorNoun(zero.op)});
  }
  return text;
}

Sentence What(const ShadowFinding& finding, const Sentence& subject) {
  const Word<FindingKind>& kind = finding.kind;
  if (kind == FindingKind::kRange) return WithSingular(Range(finding, subject), finding);
  if (kind == FindingKind::kUndefined && finding.was_bad_before) return Carried(finding, subject);
  if (kind == FindingKind::kUndefined) {
    const Sentence text(
        Form("{0} gives Inf or NaN in {1}, and so does the same computation in FP64",
             "{0}的{1}为 Inf 或 NaN，同样的计算在 FP64 中也是如此"),
        {subject, ShareText(finding.share)});
    if (finding.derivative_at || !finding.meets.empty()) return WithSingular(text, finding);
    if (!BreaksBackward(finding) || !IsSteepAtZero(finding.forward_op)) return text;
    return {
        Form("{0}: the derivative of a root or a norm at exactly 0 is infinite, and times 0 it is "
             "NaN",
             "{0}：平方根或范数在恰好为 0 处的导数是无穷大，再乘以 0 就是 NaN"),
        {text}};
  }
  if (kind == FindingKind::kIntegers) return Integers(finding, subject);
  if (kind == FindingKind::kLostChange && finding.lost_before) {
    return {
        Form("{0} leaves {1} that should change as they were: the change was lost before it came "
             "in there, as where a gradient is rounded to 0",
             "{0}使本应改变的{1}保持原样：变化在到达那里之前就已丢失，例如梯度被舍入为 0"),
        {subject, ShareText(finding.share)}};
  }
  if (kind == FindingKind::kLostChange) {
    return {Form("{0} leaves {1} that should change as they were: the change is too small beside "
                 "the value for {2}",
                 "{0}使本应改变的{1}保持原样：对 {2} 而言，"
                 "变化量相对于数值本身太小"),
            {subject, ShareText(finding.share), FormatWord(finding)}};
  }
  if (kind == FindingKind::kAmplified) return Amplified(finding, subject);
  if (kind == FindingKind::kFlushed) {
    return {Form("{0} rounds {1} to 0: they are too small for {2}",
                 "{0}把{1}舍入为 0：它们对 {2} 来说太小"),
            {subject, ShareText(finding.share, Form("elements that are not 0", "不为 0 的元素")),
             FormatWord(finding)}};
  }
  if (kind == FindingKind::kClipped) {
    const Sentence text(Form("{0} cuts off {1} at the largest value that {2} holds",
                             "{0}把{1}截断到 {2} 所能表示的最大值"),
                        {subject, ShareText(finding.share), FormatWord(finding)});
    if (!finding.magnitude) return text;
    return {Form("{0} (they go up to {1})", "{0}（原值最大 {1}）"),
            {text, Number(*finding.magnitude, 4)}};
  }
  // A kind of a later version.
  const Sentence share =
      finding.share ? Sentence(Form(", {0}", "，{0}"), {ShareText(finding.share)}) : Sentence();
  const auto error = [](const std::optional<double>& value, Form form) {
    return value ? Sentence(form, {Percent(*value)}) : Sentence();
  };
  return {Form("{0}: {1}{2}{3}{4}", "{0}：{1}{2}{3}{4}"),
          {subject,
           kind.empty() ? Sentence(Form("not told what", "没有说明是什么"))
                        : Sentence(EscapeControl(kind, 40)),
           share, error(finding.error_in, Form(", relative error in {0}", "，输入相对误差 {0}")),
           error(finding.error_out, Form(", relative error out {0}", "，输出相对误差 {0}"))}};
}

Sentence Precision(const ShadowFinding& finding) {
  if (finding.kind == FindingKind::kDiverged) {
    return Form("More precision would only put it off: FP64 would overflow a little later.",
                "更高的精度只能推迟它：FP64 会稍晚一些溢出。");
  }
  if (finding.lost_before) return {};
  if (finding.was_bad_before) {
    return Form("It was made before this step, and no precision here changes it.",
                "它在这一步之前就已产生，此处的任何精度都改变不了它。");
  }
  if (finding.proof == Proof::kExcluded) {
    return Form("More precision would not help: the FP64 reference has it too.",
                "更高的精度没有帮助：FP64 参考也有同样的结果。");
  }
  if (finding.rounded_before) {
    return Form(
        "Whether precision is to blame is not established: the FP64 reference starts from values "
        "that were held in 16 bits before, and less than their last digit decides it.",
        "是否是精度所致尚未确定：FP64 参考的起点是此前以 16 位保存的数"
        "值，而决定结果的差别小于其最后一位。");
  }
  if (finding.proof == Proof::kNotTested) {
    return Form("Whether FP32 cures it is not known.", "FP32 能否解决它尚不清楚。");
  }
  if (finding.proof != Proof::kProven) return {};
  if (!finding.cure) {
    return FormatOf(finding.dtype) == Format::kFp32 ? Form("FP64 would keep it.", "FP64 能保住它。")
                                                    : Form("FP32 cures it.", "FP32 可以解决它。");
  }
  const ShadowCure& cure = *finding.cure;
  const std::string wide = cure.what == "float64" ? "FP64"
                           : cure.what.empty() || cure.what == "float32"
                               ? "FP32"
                               : EscapeControl(cure.what, 60);
  const Sentence lines = LinesText(cure.lines, finding.source);
  const Sentence where =
      lines.empty() ? Sentence(wide) : Sentence(Form("{0} ({1})", "{0}（{1}）"), {wide, lines});
  if (!cure.error_after) {
    return {finding.kind == FindingKind::kRange
                ? Form("In {0} it stays finite; how exact it is there was not measured.",
                       "在 {0} 中它保持有限；那里的精确程度没有测量。")
                : Form("In {0} it is cured; the error that is left was not measured.",
                       "在 {0} 中问题消失；剩余的误差没有测量。"),
            {where}};
  }
  const Sentence after = Percent(*cure.error_after);
  if (finding.kind == FindingKind::kRange) {
    return {
        Form("In {0} it stays finite, with an error of {1}.", "在 {0} 中它保持有限，误差为 {1}。"),
        {where, after}};
  }
  if (finding.kind == FindingKind::kAmplified) {
    return {Form("In {0} it would be {1}.", "在 {0} 中误差为 {1}。"), {where, after}};
  }
  if (cure.error_before) {
    return {Form("In {0} the error falls from {1} to {2}.", "在 {0} 中误差从 {1} 降到 {2}。"),
            {where, Percent(*cure.error_before), after}};
  }
  return {Form("In {0} the error would be {1}.", "在 {0} 中误差为 {1}。"), {where, after}};
}

}  // namespace

Sentence SubjectOf(const ShadowFinding& finding, std::string_view module) {
  return Subject(finding, module);
}

std::string ResultDtype(const ShadowFinding& finding) {
  const auto format = FormatOf(finding.dtype);
  return format ? std::string(Info(*format).torch_name) : "";
}

Sentence Percent(double ratio) {
  if (std::isnan(ratio)) return Form("an unknown share", "未知比例");
  const double percent = 100 * ratio;
  if (!(std::fabs(percent) < 1e4)) {
    // "690 times", not "6.9e+02 times".
    return {Form("{0} times the value", "数值的 {0} 倍"),
            {std::fabs(ratio) < 1e6 ? Number(std::round(ratio), 6) : Number(ratio, 2)}};
  }
  if (percent != 0 && std::fabs(percent) < 1e-4) {
    return Form("less than 0.0001 %", "小于 0.0001 %");
  }
  char text[32];
  // Two digits, without an exponent; 99.96 % is not all.
  const bool nearly_all = percent > 99 && percent < 100;
  std::snprintf(text, sizeof(text),
                nearly_all                 ? "%.4g %%"
                : std::fabs(percent) >= 10 ? "%.0f %%"
                                           : "%.2g %%",
                nearly_all ? std::min(percent, 99.99) : percent);
  return text;
}

std::string PercentText(double ratio) { return Percent(ratio).English(); }

Sentence LinesText(const std::vector<std::string>& lines, std::string_view source) {
  struct InFile {
    std::string_view file;
    std::vector<int64_t> lines;
  };
  std::vector<InFile> files;
  std::string english, chinese;
  for (const std::string& line : lines) {
    const auto [file, text] = FileAndLine(line);
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) continue;
    auto known = std::find_if(files.begin(), files.end(),
                              [&, name = file](const InFile& f) { return f.file == name; });
    if (known == files.end()) {
      files.push_back({file, {}});
      known = files.end() - 1;
    }
    known->lines.push_back(number);
  }
  const std::string_view own = FileAndLine(source).first;
  size_t shown = 0, left_out = 0;
  for (InFile& in : files) {
    std::sort(in.lines.begin(), in.lines.end());
    in.lines.erase(std::unique(in.lines.begin(), in.lines.end()), in.lines.end());
    std::string numbers;
    for (size_t i = 0; i < in.lines.size();) {
      size_t end = i + 1;
      while (end < in.lines.size() && in.lines[end] - 1 == in.lines[end - 1]) ++end;
      if (shown == kLinesShown) {
        left_out += end - i;
      } else {
        ++shown;
        numbers += (numbers.empty() ? "" : ", ") + std::to_string(in.lines[i]);
        if (end - i > 1) numbers += "–" + std::to_string(in.lines[end - 1]);
      }
      i = end;
    }
    if (numbers.empty()) continue;
    const Sentence part = in.file != own
                              ? Sentence(ShownPlace(std::string(in.file) + ":" + numbers))
                              : Sentence(in.lines.size() == 1 ? Form("line {0}", "第 {0} 行")
                                                              : Form("lines {0}", "第 {0} 行"),
                                         {numbers});
    english += (english.empty() ? "" : " and ") + part.English();
    chinese += (chinese.empty() ? "" : "、") + part.In(Language::kChinese);
  }
  Sentence text = Sentence::InEach(std::move(english), std::move(chinese));
  if (left_out == 0) return text;
  return {Form("{0} and {1} more", "{0} 等，另有 {1} 处"),
          {std::move(text), static_cast<int64_t>(left_out)}};
}

std::string FindingName(const ShadowFinding& finding) {
  const std::string_view relation = RelationNoun(finding.kind);
  return relation.empty() ? OperatorWord(finding.op) : std::string(relation);
}

FindingWords WordsOf(const ShadowFinding& finding, std::string_view module) {
  if (IsRelation(finding.kind)) {
    return {RelationSentence(finding, finding.source.empty() ? "" : ShownPlace(finding.source)),
            {},
            {},
            {}};
  }
  Sentence what = finding.kind == FindingKind::kDiverged ? Diverged(finding)
                  : finding.rounded_between              ? RoundedBetween(finding)
                                                         : What(finding, Subject(finding, module));
  return {{Form("{0}.", "{0}。"), {std::move(what)}},
          InputsText(finding),
          Precision(finding),
          ReachText(finding)};
}

Sentence FindingSentence(const ShadowFinding& finding, std::string_view module) {
  FindingWords words = WordsOf(finding, module);
  Sentence text = std::move(words.what);
  for (Sentence* part : {&words.operands, &words.precision, &words.reach}) text += std::move(*part);
  return text;
}

std::string FindingText(const ShadowFinding& finding, std::string_view module) {
  return FindingSentence(finding, module).English();
}

std::string FindingLine(const ShadowFinding& finding, std::string_view module, int64_t world_size) {
  std::string line = Name(finding.severity) + " at step " + std::to_string(finding.step);
  if (!finding.ranks.empty()) line += " on " + RanksText(finding.ranks, world_size);
  if (finding.repeats > 1) {
    line += ", seen in " + Count(finding.repeats, "shadow step");
    if (finding.last_step) line += " up to step " + std::to_string(*finding.last_step);
  }
  return line + ": " + FindingText(finding, module);
}

}  // namespace mpnanny::runs
