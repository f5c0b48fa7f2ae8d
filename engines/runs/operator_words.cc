#include "engines/runs/operator_words.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"

namespace mpnanny::runs {
namespace {

struct OperatorName {
  std::string_view op, word, chinese;
};
// Operators whose names are no words; sorted by what they do.
constexpr OperatorName kWords[] = {
    {"add", "addition", "加法"},
    {"sub", "subtraction", "减法"},
    {"rsub", "subtraction", "减法"},
    {"mul", "multiplication", "乘法"},
    {"div", "division", "除法"},
    {"neg", "negation", "取负"},
    {"reciprocal", "reciprocal", "倒数"},
    {"addcmul", "multiply-add", "乘加"},
    {"addcdiv", "divide-add", "除加"},
    {"lerp", "interpolation (lerp)", "插值（lerp）"},
    {"mm", "matrix product", "矩阵乘法"},
    {"bmm", "matrix product", "矩阵乘法"},
    {"addmm", "matrix product", "矩阵乘法"},
    {"baddbmm", "matrix product", "矩阵乘法"},
    {"addbmm", "matrix product", "矩阵乘法"},
    {"mv", "matrix-vector product", "矩阵向量乘法"},
    {"addmv", "matrix-vector product", "矩阵向量乘法"},
    {"dot", "dot product", "点积"},
    {"vdot", "dot product", "点积"},
    {"convolution", "convolution", "卷积"},
    {"convolution_backward", "gradient of a convolution", "卷积的梯度"},
    {"sum", "sum", "求和"},
    {"mean", "mean", "均值"},
    {"var", "variance", "方差"},
    {"var_mean", "variance and mean", "方差与均值"},
    {"std", "standard deviation", "标准差"},
    {"cumsum", "cumulative sum", "累加"},
    {"cumprod", "cumulative product", "累乘"},
    {"prod", "product", "连乘"},
    {"exp", "exponential", "指数"},
    {"expm1", "exponential (expm1)", "指数（expm1）"},
    {"log", "logarithm", "对数"},
    {"log2", "logarithm", "对数"},
    {"log10", "logarithm", "对数"},
    {"log1p", "logarithm (log1p)", "对数（log1p）"},
    {"logsumexp", "log-sum-exp", "log-sum-exp"},
    {"pow", "power", "幂"},
    {"sqrt", "square root", "平方根"},
    {"rsqrt", "reciprocal square root", "平方根倒数"},
    {"linalg_vector_norm", "norm", "范数"},
    {"norm", "norm", "范数"},
    {"acos", "arc cosine (acos)", "反余弦（acos）"},
    {"asin", "arc sine (asin)", "反正弦（asin）"},
    {"where", "selection (where)", "选择（where）"},
    {"masked_fill", "masked fill (masked_fill)", "掩码填充（masked_fill）"},
    {"softmax", "softmax", "softmax"},
    {"log_softmax", "log-softmax", "log-softmax"},
    {"softmax_backward_data", "gradient of a softmax", "softmax 的梯度"},
    {"log_softmax_backward_data", "gradient of a log-softmax", "log-softmax 的梯度"},
    {"native_layer_norm", "layer norm", "层归一化"},
    {"native_layer_norm_backward", "gradient of a layer norm", "层归一化的梯度"},
    {"native_batch_norm", "batch norm", "批归一化"},
    {"native_batch_norm_backward", "gradient of a batch norm", "批归一化的梯度"},
    {"native_group_norm", "group norm", "组归一化"},
    {"nll_loss_forward", "negative log-likelihood", "负对数似然"},
    {"mse_loss", "squared error", "平方误差"},
    {"embedding", "embedding", "嵌入"},
    {"index_add", "indexed addition", "按索引加法（index_add）"},
    {"scatter_add", "scattered addition", "散射加法（scatter_add）"},
    {"to_copy", "conversion", "转换"},
    {"copy", "copy", "复制"},
    {"arange", "number range (arange)", "数列（arange）"},
    {"linspace", "number range (linspace)", "数列（linspace）"},
};

}  // namespace

std::string_view OperatorBaseName(std::string_view op) {
  for (const std::string_view prefix : {"aten.", "aten::"}) {
    if (op.starts_with(prefix)) op.remove_prefix(prefix.size());
  }
  op = op.substr(0, op.find('.'));
  if (op.starts_with("_foreach_")) op.remove_prefix(9);
  while (op.starts_with("_")) op.remove_prefix(1);
  while (op.ends_with("_")) op.remove_suffix(1);
  return op;
}

OperatorKind KindOfOperator(std::string_view op) {
  constexpr std::string_view kConstants[] = {"full",        "full_like",  "new_full",     "fill",
                                             "masked_fill", "index_fill", "scalar_tensor"};
  constexpr std::string_view kMoves[] = {
      "copy",    "to_copy", "clone",        "detach",    "cat",           "stack",
      "gather",  "index",   "index_select", "index_put", "index_copy",    "masked_scatter",
      "scatter", "where",   "select",       "slice",     "slice_scatter", "select_scatter",
      "view",    "expand",  "repeat",       "roll",      "flip",          "embedding",
      "max",     "amax",    "min",          "amin",      "sort",          "topk"};
  constexpr std::string_view kDomains[] = {
      "log",   "log2",   "log10",      "log1p",   "xlogy",
      "logit", "div",    "reciprocal", "rsqrt",   "addcdiv",
      "sqrt",  "pow",    "acos",       "asin",    "acosh",
      "atanh", "erfinv", "lgamma",     "softmax", "log_softmax",
      "var",   "std",    "var_mean",   "mean",    "linalg_vector_norm",
      "norm"};
  const std::string_view name = OperatorBaseName(op);
  const auto holds = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  return holds(kConstants) ? OperatorKind::kConstant
         : holds(kMoves)   ? OperatorKind::kMoves
         : holds(kDomains) ? OperatorKind::kDomain
                           : OperatorKind::kOther;
}

bool IsSteepAtZero(std::string_view op) {
  constexpr std::string_view kSteep[] = {"sqrt", "pow", "norm", "linalg_vector_norm",
                                         "cdist_forward"};
  return std::find(std::begin(kSteep), std::end(kSteep), OperatorBaseName(op)) != std::end(kSteep);
}

bool TakesAway(std::string_view op) {
  const std::string_view name = OperatorBaseName(op);
  return name == "sub" || name == "rsub";
}

bool AddsUp(std::string_view op) {
  constexpr std::string_view kThese[] = {
      "add", "sum",   "mean",    "cumsum", "var", "std",       "var_mean",    "mm",
      "bmm", "addmm", "baddbmm", "dot",    "mv",  "index_add", "scatter_add", "convolution"};
  return std::find(std::begin(kThese), std::end(kThese), OperatorBaseName(op)) != std::end(kThese);
}

bool LooksUp(std::string_view op) {
  const std::string_view name = OperatorBaseName(op);
  return name == "searchsorted" || name == "bucketize";
}

bool Chooses(std::string_view op) {
  static constexpr std::string_view kThese[] = {
      "topk", "sort",   "argsort", "argmax", "argmin", "kthvalue", "max", "min",
      "gt",   "median", "ge",      "lt",     "le",     "eq",       "ne",  "isclose"};
  return std::find(std::begin(kThese), std::end(kThese), OperatorBaseName(op)) != std::end(kThese);
}

std::string OperatorWord(std::string_view op) { return OperatorNoun(op).English(); }

Sentence OperatorNoun(std::string_view op) {
  const std::string_view name = OperatorBaseName(op);
  for (const OperatorName& word : kWords) {
    if (word.op == name) return Sentence::InEach(std::string(word.word), std::string(word.chinese));
  }
  // The overload says little: "aten.frobnicate" of "aten.frobnicate.default".
  const size_t first = op.find('.');
  const size_t second = first == std::string_view::npos ? first : op.find('.', first + 1);
  const std::string shown = EscapeControl(op.substr(0, second), 80);
  return shown.empty() ? Form("an operator", "某个算子") : Sentence(shown);
}

Sentence PhaseNoun(const Word<Phase>& phase) {
  constexpr const char* kChinese[] = {"数据", "前向", "损失", "反向", "优化器", "状态"};
  if (!phase.value()) return EscapeControl(phase, 40);
  return Sentence::InEach(NameOf(*phase.value()), kChinese[static_cast<size_t>(*phase.value())]);
}

}  // namespace mpnanny::runs
