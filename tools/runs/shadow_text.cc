#include "tools/runs/shadow_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/layer_word.h"
#include "base/text.h"
#include "numerics/format.h"
#include "tools/runs/operator_words.h"
#include "tools/runs/protocol_text.h"
#include "tools/runs/ranks.h"
#include "tools/runs/shadow_inputs.h"
#include "tools/runs/show.h"

namespace mpnanny::runs {
namespace {

constexpr size_t kReachShown = 3;
constexpr size_t kReachRecorded = 8;  // the monitor keeps no more (shadow/finding_rows.py)
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

std::string FormatWord(const ShadowFinding& finding) {
  const auto format = FormatOf(finding.dtype);
  return format ? std::string(Info(*format).torch_name) : "this format";
}

std::string ShareText(const std::optional<double>& share, const std::string& of = "elements") {
  if (!share) return "some " + of;
  if (*share >= 1) return "all " + of;
  return PercentText(*share) + " of the " + of;
}

// Of the updates as a whole: neither a format nor a module stands for them.
std::string Diverged(const ShadowFinding& finding) {
  const ShadowGrowth& growth = finding.growth;
  std::string text = OperatorWord(finding.op);
  if (!finding.source.empty()) text += " at " + ShownPlace(finding.source);
  text += " makes updates that are too large (learning rate): ";
  text += growth.op.empty() ? "values" : "the result of the " + OperatorWord(growth.op);
  if (!growth.at.empty()) text += " at " + ShownPlace(growth.at);
  text += growth.growth && std::isfinite(*growth.growth)
              ? " grew " + Number(*growth.growth, 4) + "-fold"
              : " grew by orders of magnitude";
  text += " since the first shadow step and ";
  text += FormatOf(finding.dtype) ? "left the range of " + FormatWord(finding) : "overflowed";
  if (finding.share) text += " (Inf or NaN in " + ShareText(finding.share) + ")";
  return text;
}

// "bfloat16 subtraction at train.py:40", "conversion (float32 → float16) at …".
std::string OperatorAt(const std::string& op, const std::string& raw_dtype,
                       const std::string& source) {
  const std::string dtype = EscapeControl(raw_dtype, 60);
  const bool converts = dtype.find("→") != std::string::npos;
  std::string text = dtype.empty() || converts ? "" : dtype + " ";
  text += OperatorWord(op);
  if (converts) text += " (" + dtype + ")";
  if (!source.empty()) text += " at " + ShownPlace(source);
  return text;
}

// The gradient of an operator gives Inf or NaN: it is that operator that somebody wrote.
bool BreaksBackward(const ShadowFinding& finding) {
  return finding.phase == "backward" && !finding.forward_op.empty() && !finding.was_bad_before &&
         IsAny(finding.kind, {"undefined", "range"});
}

std::string Subject(const ShadowFinding& finding, std::string_view module) {
  std::string text = OperatorAt(finding.op, finding.dtype, finding.source);
  std::string where = module.empty() ? "" : LayerWord(Name(module));
  if (!finding.phase.empty()) {
    where += (where.empty() ? "" : ", ") + EscapeControl(finding.phase, 40);
    if (BreaksBackward(finding)) where += " of the " + OperatorWord(finding.forward_op);
  }
  if (!where.empty()) text += " (" + where + ")";
  return text;
}

// " (from the bfloat16 addition at train.py:26)"
std::string OriginText(const std::optional<ShadowOrigin>& origin) {
  if (!origin || origin->source.empty()) return "";
  return " (from the " + OperatorAt(origin->op, origin->dtype, origin->source) + ")";
}

std::string Amplified(const ShadowFinding& finding) {
  std::string text;
  const std::string out = finding.error_out ? PercentText(*finding.error_out)
                                            : "one far larger than the values themselves";
  if (finding.error_in && *finding.error_in > 0) {
    text = " turns a relative error of " + PercentText(*finding.error_in) +
           OriginText(finding.origin) + " into " + out;
  } else {
    text = " makes a relative error of " + out;
  }
  const std::string_view name = OperatorBaseName(finding.op);
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

// Of an operator that looks numbers up among others, as searchsorted does.
std::string WrongPlaces(const ShadowFinding& finding) {
  std::string text = " finds another place than the same computation in FP64 for " +
                     ShareText(finding.share);
  if (finding.magnitude) text += " (places go up to " + Number(*finding.magnitude, 9) + ")";
  if (const auto& origin = finding.origin; origin && !origin->source.empty()) {
    text += ": what goes in is wrong";
    if (origin->error) text += " by " + PercentText(*origin->error);
    text += " since the " + OperatorAt(origin->op, origin->dtype, origin->source);
  }
  return text;
}

std::string Integers(const ShadowFinding& finding) {
  if (LooksUp(finding.op)) return WrongPlaces(finding);
  std::string text = " changes " + ShareText(finding.share, "whole numbers");
  if (finding.magnitude) text += " (up to " + Number(*finding.magnitude, 9) + ")";
  if (const auto format = FormatOf(finding.dtype)) {
    text += ": " + FormatWord(finding) + " holds every whole number only up to " +
            Number(std::exp2(Info(*format).mantissa_bits + 1), 9);
  }
  return text;
}

// It makes nothing itself: what it passes on was not finite before.
std::string Carried(const ShadowFinding& finding) {
  const ShadowCarrier& carrier = finding.carrier;
  std::string text = " gives Inf or NaN in " + ShareText(finding.share) + ", because ";
  const std::string at = carrier.at.empty() ? "" : " (" + ShownPlace(carrier.at) + ")";
  if (carrier.kind == "unwritten")
    return text + "it reads memory that nothing was written into" + at;
  text += carrier.whose.empty() ? "what goes in" : EscapeControl(carrier.whose, 120);
  return text + at + " was not finite before the step began";
}

// Of weights that are kept in too narrow a format; which one, only a shadow step shows.
std::string RoundedBetween(const ShadowFinding& finding) {
  std::string text = "The weights are rounded between two steps of the optimizer";
  if (!finding.source.empty()) {
    text += ", by the " + OperatorAt(finding.op, finding.dtype, finding.source);
  }
  return text + ": " + ShareText(finding.share, "numbers that a step changes") +
         " are back at their old value before the next one";
}

std::string What(const ShadowFinding& finding) {
  const std::string& kind = finding.kind;
  if (kind == "range") return Range(finding);
  if (kind == "undefined" && finding.was_bad_before) return Carried(finding);
  if (kind == "undefined") {
    return " gives Inf or NaN in " + ShareText(finding.share) +
           ", and so does the same computation in FP64" +
           (BreaksBackward(finding) && IsSteepAtZero(finding.forward_op)
                ? ": the derivative of a root or a norm at exactly 0 is infinite, and times 0 it is "
                  "NaN"
                : "");
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
  if (finding.kind == "diverged") {
    return " More precision would only put it off: FP64 would overflow a little later.";
  }
  if (finding.was_bad_before)
    return " It was made before this step, and no precision here changes it.";
  if (finding.precision == "excluded") {
    return " More precision would not help: the FP64 reference has it too.";
  }
  if (finding.rounded_before) {
    return " Whether precision is to blame is not established: the FP64 reference starts from "
           "values "
           "that were held in 16 bits before, and less than their last digit decides it.";
  }
  if (finding.precision == "not_tested") return " Whether FP32 cures it is not known.";
  if (finding.precision != "proven") return "";
  if (!finding.cure) {
    return FormatOf(finding.dtype) == Format::kFp32 ? " FP64 would keep it." : " FP32 cures it.";
  }
  const ShadowCure& cure = *finding.cure;
  const std::string wide = cure.what == "float64" ? "FP64"
                           : cure.what.empty() || cure.what == "float32"
                               ? "FP32"
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
  const std::string name = LayerWord(Name(reach.name));
  std::string text;
  if (reach.what == "loss") {
    text = "the loss";
  } else if (reach.what == "gradient") {
    text = name.empty() ? "gradients" : "the gradient of " + name;
  } else if (reach.what == "input") {
    text = "what goes into the model or its loss";
  } else if (reach.what == "index") {
    text = name.empty() ? "an index" : "an index (" + name + ")";
  } else if (reach.what == "decision") {
    // Its number is the share of elements that are different.
    return "a decision that falls the other way in FP64" + (name.empty() ? "" : " (" + name + ")");
  } else {
    const std::string what = EscapeControl(reach.what, 40);
    text = name.empty() ? "the " + what : what + " " + name;
  }
  if (reach.error && *reach.error > 0) text += " (error " + PercentText(*reach.error) + ")";
  return text;
}

// "a, b and 2 more" of `all`, which are at least one; "and more" of a list that was cut when it was
// recorded.
std::string ListedAll(const std::vector<std::string>& all, bool cut) {
  std::vector<std::string> words(all.begin(), all.begin() + std::min(all.size(), kReachShown));
  const size_t more = all.size() - words.size();
  if (more > 0) words.push_back(cut ? "more" : std::to_string(more) + " more");
  std::string text = words.front();
  for (size_t i = 1; i < words.size(); ++i) {
    text += (i + 1 == words.size() ? " and " : ", ") + words[i];
  }
  return text;
}

std::string Reach(const ShadowFinding& finding) {
  std::vector<std::string> reached, replaced;
  for (const ShadowReach& reach : finding.reach) {
    if (reach.what == "replaced") {
      replaced.push_back("nan_to_num" +
                         (reach.name.empty() ? "" : " at " + ShownPlace(reach.name)));
    } else {
      reached.push_back(ReachWord(reach));
    }
  }
  const bool cut = finding.reach.size() >= kReachRecorded;
  std::string text = reached.empty() ? "" : " Reaches " + ListedAll(reached, cut) + ".";
  if (!replaced.empty()) text += " Values were replaced by " + ListedAll(replaced, cut) + ".";
  return text;
}

}  // namespace

std::string SubjectOf(const ShadowFinding& finding, std::string_view module) {
  return Subject(finding, module);
}

std::string ResultDtype(const ShadowFinding& finding) {
  const auto format = FormatOf(finding.dtype);
  return format ? std::string(Info(*format).torch_name) : "";
}

std::string PercentText(double ratio) {
  if (std::isnan(ratio)) return "an unknown share";
  const double percent = 100 * ratio;
  if (!(std::fabs(percent) < 1e4)) {
    // "690 times", not "6.9e+02 times".
    return (std::fabs(ratio) < 1e6 ? Number(std::round(ratio), 6) : Number(ratio, 2)) +
           " times the value";
  }
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
                                   : ShownPlace(std::string(in.file) + ":" + numbers));
  }
  std::string text = Join(parts, " and ");
  if (left_out > 0) text += " and " + std::to_string(left_out) + " more";
  return text;
}

FindingWords WordsOf(const ShadowFinding& finding, std::string_view module) {
  if (IsProtocol(finding.kind)) {
    return {ProtocolText(finding, finding.source.empty() ? "" : ShownPlace(finding.source)), "", "",
            ""};
  }
  const auto trimmed = [](std::string text) {
    return text.starts_with(' ') ? text.substr(1) : text;
  };
  const std::string what = finding.kind == "diverged"  ? Diverged(finding)
                           : finding.rounded_between   ? RoundedBetween(finding)
                                                       : Subject(finding, module) + What(finding);
  return {
      what + ".",
      InputsText(finding), trimmed(Precision(finding)), trimmed(Reach(finding))};
}

std::string FindingText(const ShadowFinding& finding, std::string_view module) {
  FindingWords words = WordsOf(finding, module);
  for (const std::string& part : {words.operands, words.precision, words.reach}) {
    if (!part.empty()) words.what += " " + part;
  }
  return words.what;
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
