#include "engines/diagnosis/cases/signal_words.h"

#include <algorithm>
#include <string_view>

#include "base/layer_word.h"
#include "base/text.h"
#include "engines/cases/vocabulary.h"
#include "engines/runs/show.h"

namespace mpnanny::diagnosis {
namespace {

using runs::Form;
using runs::Number;
using runs::Sentence;

struct ColumnWords {
  std::string_view column;
  Form words;
};

constexpr ColumnWords kOfStep[] = {
    {"loss", Form("the loss", "损失")},
    {"lr", Form("the learning rate", "学习率")},
    {"loss_scale", Form("the loss scale", "损失缩放")},
    {"grad_norm", Form("the gradient norm", "梯度范数")},
    {"duration", Form("the time of a step", "一步的时间")},
    {"peak_memory", Form("the peak of device memory", "设备内存峰值")},
};

constexpr ColumnWords kValues[] = {
    {"absmax", Form("the largest magnitude", "最大绝对值")},
    {"absmin", Form("the smallest magnitude above 0", "大于 0 的最小绝对值")},
    {"min", Form("the smallest value", "最小值")},
    {"max", Form("the largest value", "最大值")},
    {"mean", Form("the mean", "均值")},
    {"std", Form("the standard deviation", "标准差")},
    {"rms", Form("the root mean square", "均方根")},
    {"l2", Form("the L2 norm", "L2 范数")},
};

// Counted elements: "the number of …" or "the share of …".
constexpr ColumnWords kCounts[] = {
    {"nan", Form("NaN elements", "NaN 元素")},
    {"posinf", Form("+Inf elements", "+Inf 元素")},
    {"neginf", Form("-Inf elements", "-Inf 元素")},
    {"zeros", Form("elements that are 0", "为 0 的元素")},
    {"below_fp16", Form("elements that FP16 rounds to 0", "在 FP16 中变为 0 的元素")},
    {"subnormal_fp16", Form("elements that FP16 holds as subnormal", "FP16 以次正规数保存的元素")},
    {"above_fp16", Form("elements too large for FP16", "对 FP16 太大的元素")},
    {"frozen", Form("changes too small to move their weight", "小到不能改变权重的更新")},
};

template <size_t n>
const Form* Find(const ColumnWords (&table)[n], std::string_view column) {
  const auto* const found = std::find_if(std::begin(table), std::end(table),
                                         [&](const auto& row) { return row.column == column; });
  return found == std::end(table) ? nullptr : &found->words;
}

Sentence FigureWords(const cases::Signal& signal) {
  if (signal.of == "step") {
    if (const Form* words = Find(kOfStep, signal.name)) return *words;
  } else if (const Form* counted = Find(kCounts, signal.name)) {
    return {signal.share ? Form("the share of {0}", "{0}的比例")
                         : Form("the number of {0}", "{0}的个数"),
            {*counted}};
  } else if (const Form* words = Find(kValues, signal.name)) {
    return *words;
  }
  std::string name = signal.name;
  std::replace(name.begin(), name.end(), '_', ' ');
  return {Form("the figure {0}", "数值 {0}"), {std::move(name)}};
}

Form Comparison(std::string_view op) {
  return op == ">"    ? Form("more than {0}", "大于 {0}")
         : op == ">=" ? Form("at least {0}", "至少 {0}")
         : op == "<"  ? Form("less than {0}", "小于 {0}")
         : op == "<=" ? Form("at most {0}", "至多 {0}")
         : op == "==" ? Form("exactly {0}", "恰好 {0}")
                      : Form("other than {0}", "不等于 {0}");
}

// "activation gradient", as signals name the tensors that they speak of.
Sentence TensorWord(const std::string& of) {
  constexpr std::pair<std::string_view, const char*> kChinese[] = {
      {"input", "输入"},
      {"activation", "激活"},
      {"activation_gradient", "激活的梯度"},
      {"gradient", "梯度"},
      {"weight", "权重"},
      {"update", "更新量"},
      {"optimizer_state", "优化器状态"}};
  std::string english = of;
  std::replace(english.begin(), english.end(), '_', ' ');
  const auto* const found = std::find_if(std::begin(kChinese), std::end(kChinese),
                                         [&](const auto& each) { return each.first == of; });
  return found == std::end(kChinese) ? Sentence(std::move(english))
                                     : Sentence::InEach(std::move(english), found->second);
}

std::string Value(const cases::Signal& signal, double value) {
  return signal.share ? Number(100 * value, 3) + " %" : Number(value);
}

template <size_t n>
std::string MeaningOf(const cases::Word (&words)[n], std::string_view name) {
  const auto* const found = std::find_if(std::begin(words), std::end(words),
                                         [&](const auto& word) { return word.name == name; });
  return std::string(found == std::end(words) ? name : found->meaning);
}

// What is looked for. The vocabulary has English meanings only.
std::string SignalWords(const cases::Signal& signal) {
  switch (signal.kind) {
    case cases::Signal::Kind::kAlert:
      return "an alert " + signal.name + (signal.phase.empty() ? "" : " in " + signal.phase) +
             " (" + MeaningOf(cases::kAlertTypes, signal.name) + ")";
    case cases::Signal::Kind::kSign:
      return MeaningOf(cases::kSigns, signal.name);
    case cases::Signal::Kind::kScale:
      return "a loss scale that is " + signal.name + " (" +
             MeaningOf(cases::kScaleStates, signal.name) + ")";
    case cases::Signal::Kind::kStat:
    case cases::Signal::Kind::kRule:
    case cases::Signal::Kind::kLog:
      break;
  }
  return "`" + EscapeControl(signal.text, 100) + "`";
}

}  // namespace

Sentence StatSentence(const cases::Signal& signal, const StatHit& hit) {
  const std::string layer = hit.layer.empty() ? "" : LayerWord(runs::Name(hit.layer));
  // Every tensor has elements: what the signal asks for is that there is such a layer.
  if (signal.name == "numel" && !layer.empty()) {
    return {Form("the run has {0}, a layer of the kind that this case is about",
                 "训练中有 {0}，正是该案例所说的那类层"),
            {layer}};
  }
  Sentence figure = FigureWords(signal);
  if (signal.of != "step") {
    figure = {Find(kCounts, signal.name) ? Form("{0} in the {1}", "{1}中{0}")
                                         : Form("{0} in the {1}", "{1}的{0}"),
              {std::move(figure), TensorWord(signal.of)}};
  }
  if (!layer.empty()) figure = {Form("{0} of {1}", "{1} 的{0}"), {std::move(figure), layer}};
  return {
      Form("{0} was {1} at step {2} (this case has {3})", "{0}在第 {2} 步为 {1}（该案例要求{3}）"),
      {std::move(figure), Value(signal, hit.value), hit.step,
       Sentence(Comparison(signal.op), {Value(signal, signal.value)})}};
}

Sentence UnseenSentence(const cases::Signal& signal) {
  return {Form("Not seen, though it belongs to this case: {0}.", "没有看到该案例应有的迹象：{0}。"),
          {SignalWords(signal)}};
}

std::string AlertMeaning(std::string_view type) { return MeaningOf(cases::kAlertTypes, type); }

}  // namespace mpnanny::diagnosis
