#include "tools/runs/shadow_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/text.h"
#include "numerics/format.h"
#include "tools/runs/ranks.h"
#include "tools/runs/show.h"

namespace mpnanny::runs {
namespace {

constexpr size_t kReachShown = 3;
constexpr size_t kLinesShown = 6;
constexpr size_t kPlaceBytes = 80;

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

// "sub" of "aten._foreach_sub_.ScalarList".
std::string_view BaseName(std::string_view op) {
  for (const std::string_view prefix : {"aten.", "aten::"}) {
    if (op.starts_with(prefix)) op.remove_prefix(prefix.size());
  }
  op = op.substr(0, op.find('.'));
  if (op.starts_with("_foreach_")) op.remove_prefix(9);
  while (op.starts_with("_")) op.remove_prefix(1);
  while (op.ends_with("_")) op.remove_suffix(1);
  return op;
}

bool IsAny(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A path's end, which is what tells files apart.
std::string Place(std::string_view source) {
  const std::string shown = EscapeControl(source, 400);
  if (shown.size() <= kPlaceBytes) return shown;
  const size_t slash = shown.find('/', shown.size() - kPlaceBytes);
  size_t from = slash == std::string::npos ? shown.size() - kPlaceBytes : slash;
  while (from < shown.size() && (static_cast<unsigned char>(shown[from]) & 0xC0) == 0x80) ++from;
  return "…" + shown.substr(from);
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

std::string FormatWord(const ShadowFinding& finding) {
  const auto format = FormatOf(finding.dtype);
  return format ? std::string(Info(*format).torch_name) : "this format";
}

std::string ShareText(const std::optional<double>& share, const std::string& of = "elements") {
  if (!share) return "some " + of;
  if (*share >= 1) return "all " + of;
  return PercentText(*share) + " of the " + of;
}

std::string Subject(const ShadowFinding& finding, std::string_view module) {
  const std::string dtype = EscapeControl(finding.dtype, 60);
  const bool converts = dtype.find("→") != std::string::npos;
  std::string text = dtype.empty() || converts ? "" : dtype + " ";
  text += OperatorWord(finding.op);
  if (converts) text += " (" + dtype + ")";
  if (!finding.source.empty()) text += " at " + Place(finding.source);
  std::string where = module.empty() ? "" : Name(module);
  if (!finding.phase.empty()) {
    where += (where.empty() ? "" : ", ") + EscapeControl(finding.phase, 40);
  }
  if (!where.empty()) text += " (" + where + ")";
  return text;
}

std::string Amplified(const ShadowFinding& finding) {
  std::string text;
  const std::string out = finding.error_out ? PercentText(*finding.error_out)
                                            : "one far larger than the values themselves";
  if (finding.error_in && *finding.error_in > 0) {
    text = " turns a relative error of " + PercentText(*finding.error_in) + " into " + out;
  } else {
    text = " makes a relative error of " + out;
  }
  const std::string_view name = BaseName(finding.op);
  if (IsAny(name, {"sub", "rsub"})) {
    return text +
           ": cancellation (the operands are nearly equal, and what is left of them is mostly "
           "rounding error)";
  }
  if (IsAny(name, {"add", "sum", "mean", "cumsum", "var", "std", "var_mean", "mm", "bmm", "addmm",
                   "baddbmm", "dot", "mv", "index_add", "scatter_add", "convolution"})) {
    return text + ": its terms nearly cancel out, or many rounding errors add up";
  }
  if (IsAny(name, {"to_copy", "copy"})) return text + ": the format is too coarse for these values";
  return text;
}

std::string Range(const ShadowFinding& finding) {
  std::string text = " gives Inf or NaN in " + ShareText(finding.share) +
                     ", where the same computation in FP64 stays finite";
  if (!finding.magnitude) return text;
  text += " (up to " + Number(*finding.magnitude, 4);
  const auto format = FormatOf(finding.dtype);
  if (format && *finding.magnitude > Info(*format).max) {
    text += "; " + FormatWord(finding) + " ends at " + Number(Info(*format).max, 6);
  }
  return text + ")";
}

std::string Integers(const ShadowFinding& finding) {
  std::string text = " changes " + ShareText(finding.share, "whole numbers");
  if (finding.magnitude) text += " (up to " + Number(*finding.magnitude, 9) + ")";
  if (const auto format = FormatOf(finding.dtype)) {
    text += ": " + FormatWord(finding) + " holds every whole number only up to " +
            Number(std::exp2(Info(*format).mantissa_bits + 1), 9);
  }
  return text;
}

std::string What(const ShadowFinding& finding) {
  const std::string& kind = finding.kind;
  if (kind == "range") return Range(finding);
  if (kind == "undefined") {
    return " gives Inf or NaN in " + ShareText(finding.share) +
           ", and so does the same computation in FP64";
  }
  if (kind == "integers") return Integers(finding);
  if (kind == "lost_change") {
    return " leaves " + ShareText(finding.share) +
           " that should change as they were: the change is too small beside the value for " +
           FormatWord(finding);
  }
  if (kind == "amplified") return Amplified(finding);
  if (kind == "flushed") {
    return " rounds " + ShareText(finding.share, "elements that are not 0") +
           " to 0: they are too small for " + FormatWord(finding);
  }
  if (kind == "clipped") {
    std::string text = " cuts off " + ShareText(finding.share) + " at the largest value that " +
                       FormatWord(finding) + " holds";
    if (finding.magnitude) text += " (they go up to " + Number(*finding.magnitude, 4) + ")";
    return text;
  }
  // A kind of a later version.
  std::string text = ": " + (kind.empty() ? "not told what" : EscapeControl(kind, 40));
  if (finding.share) text += ", " + ShareText(finding.share);
  if (finding.error_in) text += ", relative error in " + PercentText(*finding.error_in);
  if (finding.error_out) text += ", relative error out " + PercentText(*finding.error_out);
  return text;
}

std::string Precision(const ShadowFinding& finding) {
  if (finding.precision == "excluded") {
    return " More precision would not help: the FP64 reference has it too.";
  }
  if (finding.precision == "not_tested") return " Whether FP32 cures it is not known.";
  if (finding.precision != "proven") return "";
  if (!finding.cure) return " FP32 cures it.";
  const ShadowCure& cure = *finding.cure;
  const std::string wide = cure.what == "float64"                        ? "FP64"
                           : cure.what.empty() || cure.what == "float32" ? "FP32"
                                                                         : EscapeControl(cure.what, 60);
  const std::string lines = LinesText(cure.lines, finding.source);
  const std::string where = wide + (lines.empty() ? "" : " (" + lines + ")");
  if (!cure.error_after) return " In " + where + " it is right.";
  const std::string after = PercentText(*cure.error_after);
  if (finding.kind == "range") {
    return " In " + where + " it stays finite, with an error of " + after + ".";
  }
  if (finding.kind == "amplified") return " In " + where + " it would be " + after + ".";
  if (cure.error_before) {
    return " In " + where + " the error falls from " + PercentText(*cure.error_before) + " to " +
           after + ".";
  }
  return " In " + where + " the error would be " + after + ".";
}

std::string ReachWord(const ShadowReach& reach) {
  const std::string name = Name(reach.name);
  std::string text;
  if (reach.what == "loss") {
    text = "the loss";
  } else if (reach.what == "gradient") {
    text = name.empty() ? "gradients" : "the gradient of " + name;
  } else if (reach.what == "index") {
    text = name.empty() ? "an index" : "an index (" + name + ")";
  } else {
    const std::string what = EscapeControl(reach.what, 40);
    text = name.empty() ? "the " + what : what + " " + name;
  }
  if (reach.error && *reach.error > 0) text += " (error " + PercentText(*reach.error) + ")";
  return text;
}

std::string Reach(const ShadowFinding& finding) {
  if (finding.reach.empty()) return "";
  std::vector<std::string> words;
  for (const ShadowReach& reach : finding.reach) {
    if (words.size() == kReachShown) break;
    words.push_back(ReachWord(reach));
  }
  const size_t more = finding.reach.size() - words.size();
  if (more > 0) words.push_back(std::to_string(more) + " more");
  std::string text = words.front();
  for (size_t i = 1; i < words.size(); ++i) {
    text += (i + 1 == words.size() ? " and " : ", ") + words[i];
  }
  return " Reaches " + text + ".";
}

}  // namespace

std::string OperatorWord(std::string_view op) {
  const std::string_view name = BaseName(op);
  for (const Word& word : kWords) {
    if (word.op == name) return std::string(word.word);
  }
  // The overload says little: "aten.frobnicate" of "aten.frobnicate.default".
  const size_t first = op.find('.');
  const size_t second = first == std::string_view::npos ? first : op.find('.', first + 1);
  const std::string shown = EscapeControl(op.substr(0, second), 80);
  return shown.empty() ? "an operator" : shown;
}

std::string PercentText(double ratio) {
  if (std::isnan(ratio)) return "an unknown share";
  const double percent = 100 * ratio;
  if (!(std::fabs(percent) < 1e4)) return Number(ratio, 2) + " times the value";
  if (percent != 0 && std::fabs(percent) < 1e-4) return "less than 0.0001 %";
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

std::string LinesText(const std::vector<std::string>& lines, std::string_view source) {
  struct InFile {
    std::string_view file;
    std::vector<int64_t> lines;
  };
  std::vector<InFile> files;
  std::vector<std::string> parts;
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
    parts.push_back(in.file == own ? (in.lines.size() == 1 ? "line " : "lines ") + numbers
                                   : Place(std::string(in.file) + ":" + numbers));
  }
  std::string text = Join(parts, " and ");
  if (left_out > 0) text += " and " + std::to_string(left_out) + " more";
  return text;
}

std::string FindingText(const ShadowFinding& finding, std::string_view module) {
  return Subject(finding, module) + What(finding) + "." + Precision(finding) + Reach(finding);
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
