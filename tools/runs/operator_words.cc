#include "tools/runs/operator_words.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"

namespace mpnanny::runs {
namespace {

struct Word {
  std::string_view op, word;
};
// Operators whose names are no words; sorted by what they do.
constexpr Word kWords[] = {
    {"add", "addition"},
    {"sub", "subtraction"},
    {"rsub", "subtraction"},
    {"mul", "multiplication"},
    {"div", "division"},
    {"neg", "negation"},
    {"reciprocal", "reciprocal"},
    {"addcmul", "multiply-add"},
    {"addcdiv", "divide-add"},
    {"lerp", "interpolation (lerp)"},
    {"mm", "matrix product"},
    {"bmm", "matrix product"},
    {"addmm", "matrix product"},
    {"baddbmm", "matrix product"},
    {"addbmm", "matrix product"},
    {"mv", "matrix-vector product"},
    {"addmv", "matrix-vector product"},
    {"dot", "dot product"},
    {"vdot", "dot product"},
    {"convolution", "convolution"},
    {"convolution_backward", "gradient of a convolution"},
    {"sum", "sum"},
    {"mean", "mean"},
    {"var", "variance"},
    {"var_mean", "variance and mean"},
    {"std", "standard deviation"},
    {"cumsum", "cumulative sum"},
    {"cumprod", "cumulative product"},
    {"prod", "product"},
    {"exp", "exponential"},
    {"expm1", "exponential (expm1)"},
    {"log", "logarithm"},
    {"log2", "logarithm"},
    {"log10", "logarithm"},
    {"log1p", "logarithm (log1p)"},
    {"logsumexp", "log-sum-exp"},
    {"pow", "power"},
    {"sqrt", "square root"},
    {"rsqrt", "reciprocal square root"},
    {"linalg_vector_norm", "norm"},
    {"norm", "norm"},
    {"softmax", "softmax"},
    {"log_softmax", "log-softmax"},
    {"softmax_backward_data", "gradient of a softmax"},
    {"log_softmax_backward_data", "gradient of a log-softmax"},
    {"native_layer_norm", "layer norm"},
    {"native_layer_norm_backward", "gradient of a layer norm"},
    {"native_batch_norm", "batch norm"},
    {"native_batch_norm_backward", "gradient of a batch norm"},
    {"native_group_norm", "group norm"},
    {"nll_loss_forward", "negative log-likelihood"},
    {"mse_loss", "squared error"},
    {"embedding", "embedding"},
    {"index_add", "indexed addition"},
    {"scatter_add", "scattered addition"},
    {"to_copy", "conversion"},
    {"copy", "copy"},
    {"arange", "number range (arange)"},
    {"linspace", "number range (linspace)"},
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
  constexpr std::string_view kSteep[] = {"sqrt", "pow", "norm", "linalg_vector_norm", "cdist_forward"};
  return std::find(std::begin(kSteep), std::end(kSteep), OperatorBaseName(op)) != std::end(kSteep);
}

bool LooksUp(std::string_view op) {
  const std::string_view name = OperatorBaseName(op);
  return name == "searchsorted" || name == "bucketize";
}

std::string OperatorWord(std::string_view op) {
  const std::string_view name = OperatorBaseName(op);
  for (const Word& word : kWords) {
    if (word.op == name) return std::string(word.word);
  }
  // The overload says little: "aten.frobnicate" of "aten.frobnicate.default".
  const size_t first = op.find('.');
  const size_t second = first == std::string_view::npos ? first : op.find('.', first + 1);
  const std::string shown = EscapeControl(op.substr(0, second), 80);
  return shown.empty() ? "an operator" : shown;
}

}  // namespace mpnanny::runs
