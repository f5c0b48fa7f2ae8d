#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "engines/python_code/fields.h"
#include "engines/python_code/whole_numbers.h"
#include "engines/runs/show.h"
#include "tools/choose_precision/report.h"

namespace mpnanny::choose_precision {
namespace {

using python_code::ListAt;
using python_code::NumberAt;
using python_code::PercentAt;
using python_code::TextAt;
using python_code::WholeNumbersText;
using python_code::WordsOf;

constexpr size_t kLayersShown = 8;
constexpr size_t kLineBytes = 400;
constexpr double kLeastGain = 0.02;  // a share of time or memory below this is none

std::string NameText(const std::string& module) {
  if (module.empty()) return "the model's own operators";
  return EscapeControl(module, runs::kShownNameBytes);
}

std::string ModuleText(const Json& row) { return NameText(TextAt(row, "module")); }

std::string NamesText(const Json& modules) {
  std::string text;
  for (const Json& each : modules) {
    if (!each.is_string()) continue;
    text += (text.empty() ? "" : ", ") + NameText(each.get<std::string>());
  }
  return text;
}

const Json& ObjectAt(const Json& object, const char* key) {
  static const Json kNone = Json::object();
  const auto it = object.find(key);
  return it != object.end() && it->is_object() ? *it : kNone;
}

// Whether a plan is faster or smaller than FP32, as far as its figures tell; nullopt: they are not
// there.
std::optional<bool> Gains(const Json& plan) {
  const auto memory = NumberAt(ObjectAt(plan, "memory"), "of_fp32");
  const auto speed = NumberAt(plan, "speedup_model");
  if (!memory && !speed) return std::nullopt;
  return memory.value_or(1) < 1 - kLeastGain || speed.value_or(1) > 1 + kLeastGain;
}

// Whether nothing in the table is faster or smaller than FP32.
bool NothingGained(const Json& answer) {
  if (TextAt(answer, "way") == "fp32" || Gains(answer).value_or(true)) return false;
  for (const Json& each : ListAt(answer, "alternatives")) {
    if (each.value("established", false) && Gains(each).value_or(false)) return false;
  }
  return true;
}

// "final loss 1.06, FP32's 0.0047".
std::string FinalLosses(const Json& trial) {
  return "final loss " + runs::Number(NumberAt(trial, "final"), 4) + ", FP32's " +
         runs::Number(NumberAt(trial, "final_fp32"), 4);
}

std::string ReasonText(const Json& trial) {
  const std::string reason = TextAt(trial, "reason");
  if (reason == "raised") {
    return "it stops with " + EscapeControl(TextAt(trial, "raised"), 200);
  }
  if (reason == "not_finite") return "its loss is not finite";
  if (reason == "fp32_not_finite") return "FP32's own loss is not finite";
  if (reason == "stall") return "it stalls, " + FinalLosses(trial);
  if (reason == "too_few_steps") return "too few steps, " + FinalLosses(trial);
  if (reason == "both_learnt") {
    return FinalLosses(trial) + ": both have come to next to nothing, where a ratio says little";
  }
  if (reason == "below_limit") {
    return FinalLosses(trial) + ": so far below it another function was trained";
  }
  const double difference = std::abs(NumberAt(trial, "difference").value_or(1));
  return FinalLosses(trial) + (difference < 1 ? " (" + PercentAt(trial, "difference") + ")" : "");
}

// What a trial refuted: "BF16 autocast was tried for 100 steps and fails (final loss 1.06, FP32's
// 0.0047): ". FP32 itself, or what was tried after it, follows.
std::string Refuted(const Json& answer) {
  std::string text;
  for (const Json& each : ListAt(answer, "refuted")) {
    for (const Json& other : ListAt(answer, "alternatives")) {
      const Json& trial = ObjectAt(other, "trial");
      if (!each.is_string() || trial.empty() || TextAt(other, "way") != each) continue;
      text += (text.empty() ? "" : "; ") + WayText(TextAt(other, "way")) + " was tried for " +
              runs::Number(NumberAt(trial, "steps"), 8) + " steps and fails (" + ReasonText(trial) +
              ")";
    }
  }
  return text.empty() ? "" : text + ": ";
}

std::string Headline(const Json& answer) {
  const std::string verdict = TextAt(answer, "verdict");
  const Json& device = ObjectAt(answer, "device");
  std::string text = EscapeControl(TextAt(answer, "target"), 200) + " on " +
                     EscapeControl(TextAt(device, "title"), 100) + ": " + Refuted(answer);
  if (verdict == "stay_fp32") return text + "stay in FP32.\n";
  if (verdict == "nothing_lower_on_device") {
    return text + "FP32; this device has no matrix units for a lower format.\n";
  }
  if (NothingGained(answer)) {
    text += "stay as you are, in FP32: nothing is gained here, no choice is faster or smaller. Of "
            "the lower formats the one to take is ";
  }
  text += WayText(TextAt(answer, "way"));
  const size_t islands = ListAt(answer, "islands").size();
  if (islands > 0) {
    text += ", with " + runs::Count(static_cast<int64_t>(islands), "module") + " in FP32";
  }
  return text + " (goal: " + TextAt(answer, "goal") + ").\n";
}

std::string Effect(const Json& effect) {
  if (const std::string raised = TextAt(effect, "raised"); !raised.empty()) {
    return "stops with " + EscapeControl(raised, 200);
  }
  std::string text = "output " + PercentAt(effect, "output");
  if (NumberAt(effect, "loss")) text += ", loss " + PercentAt(effect, "loss");
  if (NumberAt(effect, "gradient")) {
    text += ", gradients " + PercentAt(effect, "gradient");
    const std::string worst = TextAt(effect, "worst_name");
    if (!worst.empty()) {
      text +=
          " (worst " + EscapeControl(worst, 120) + ", " + PercentAt(effect, "worst_gradient") + ")";
    }
  }
  return text;
}

// Of the code itself, whatever the format of the training is.
std::string OwnWholeNumbers(const Json& answer) {
  std::string text;
  for (const Json& each : ListAt(answer, "whole_numbers")) {
    text += "In every format, by the code's own dtype: " + WholeNumbersText(each) + "\n";
  }
  return text;
}

std::string Islands(const Json& answer) {
  std::string text, sources;
  for (const Json& each : ListAt(answer, "islands")) {
    std::string line = "  FP32: " + ModuleText(each);
    const std::string kind = EscapeControl(TextAt(each, "kind"), 60);
    if (!kind.empty()) line += " (" + kind + ")";
    if (const Json& whole = ObjectAt(each, "whole_numbers"); !whole.empty()) {
      text += line + ": without it " + WholeNumbersText(whole) + "\n";
      const std::string source = EscapeControl(TextAt(whole, "source"), 200);
      if (source.empty() || sources.find(source) != std::string::npos) continue;
      sources += (sources.empty() ? "" : ", ") + source;
      continue;
    }
    line += ": without it the error is " + PercentAt(each, "without_it");
    line += ", it alone in the low format " + PercentAt(each, "alone");
    if (const auto largest = NumberAt(each, "absmax")) {
      line += "; largest value " + runs::Number(*largest, 4);
    }
    const std::string lines = WordsOf(ListAt(each, "lines"));
    if (!lines.empty()) line += "; " + lines;
    text += line.substr(0, kLineBytes) + "\n";
  }
  if (!sources.empty()) {
    text += "  Where the whole numbers are made in FP32 by the code itself (" + sources +
            "), no module has to stay in FP32 for them.\n";
  }
  if (const Json& left = ListAt(answer, "fp8_left_out"); !left.empty()) {
    text += "  BF16 instead of FP8: " + NamesText(left) + "\n";
  }
  return text;
}

std::string Figures(const Json& plan) {
  std::string text = PercentAt(plan, "fp32_operators") + " of the operators in FP32";
  if (const auto share = NumberAt(ObjectAt(plan, "memory"), "of_fp32")) {
    text += ", memory " + runs::Number(*share, 3) + " times FP32's";
  }
  if (const auto speed = NumberAt(plan, "speedup_model")) {
    text += ", time by a roofline model " + runs::Number(1 / *speed, 3) + " times";
  }
  return text;
}

std::string Scaler(const Json& answer) {
  const Json& scaler = ObjectAt(answer, "scaler");
  if (scaler.empty()) return "";
  return "Loss scale: begin at " + runs::Number(NumberAt(scaler, "init_scale"), 8) +
         ", growth_interval " + runs::Number(NumberAt(scaler, "growth_interval"), 6) +
         " (largest gradient " + runs::Number(NumberAt(scaler, "gradient_absmax"), 3) +
         "; gradients that become zero: " + PercentAt(scaler, "flushed_unscaled") +
         " without a scale, " + PercentAt(scaler, "flushed") + " with it).\n";
}

std::string States(const Json& answer) {
  std::string keep, may;
  for (const Json& each : ListAt(answer, "states")) {
    const std::string text = TextAt(each, "state") + " (" + TextAt(each, "format") + " loses " +
                             PercentAt(each, "lost") + ")";
    // What four steps lose of the weights tells nothing of a training's end: nobody is invited.
    const bool weights = TextAt(each, "state") == "weights";
    std::string& where = weights || each.value("keep_fp32", true) ? keep : may;
    where += (where.empty() ? "" : ", ") + EscapeControl(text, 120);
  }
  std::string text;
  if (!keep.empty()) text += "Kept between steps, in FP32: " + keep + ".\n";
  if (!may.empty()) text += "Kept between steps, 16 bits lose little of: " + may + ".\n";
  return text;
}

std::string VerdictText(const std::string& verdict) {
  if (verdict == "type_1") return "acceptable";
  if (verdict == "type_2") return "not acceptable";
  return "not established";
}

std::string TrialText(const Json& answer) {
  const Json& trial = ObjectAt(answer, "trial");
  if (trial.empty()) {
    return "Not tried in training: call again with `try` (200 steps, say) and `batches`.\n";
  }
  std::string text = "Tried for " + runs::Number(NumberAt(trial, "steps"), 8) + " steps: ";
  if (TextAt(answer, "way") == "fp32") {
    text += "FP32's final loss is " + runs::Number(NumberAt(trial, "final_fp32"), 4);
  } else {
    text += VerdictText(TextAt(trial, "verdict")) + ": " + ReasonText(trial);
  }
  text += "; FP32 differs from itself with other draws by " + PercentAt(trial, "noise") + ".\n";
  if (const Json& whole = ObjectAt(trial, "all_low"); !whole.empty()) {
    text += "The same without islands: " + VerdictText(TextAt(whole, "verdict")) + ": " +
            ReasonText(whole) + ".\n";
  }
  for (const Json& each : ListAt(trial, "limits")) {
    if (each == "same_batch_every_step") {
      text += "Each step had the same batch; with `batches` it sees your data.\n";
    }
    if (each == "loss_is_mean_square_of_output") {
      text += "No loss was given: the mean square of the output stood in.\n";
    }
  }
  return text;
}

std::string Alternatives(const Json& answer) {
  std::string text;
  for (const Json& each : ListAt(answer, "alternatives")) {
    std::string line = "  " + WayText(TextAt(each, "way"));
    const std::string good_for = WordsOf(ListAt(each, "good_for"));
    if (!good_for.empty()) line += " [" + good_for + "]";
    const Json& trial = ObjectAt(each, "trial");
    if (TextAt(trial, "verdict") == "type_2") {
      line += ": refuted by its trial: ";
    } else {
      line += each.value("established", false) ? ": " : ": not established: ";
    }
    for (const Json& whole : ListAt(each, "whole_numbers")) line += WholeNumbersText(whole) + " ";
    line += Effect(ObjectAt(each, "error")) + "; " + Figures(each);
    if (const Json& islands = ListAt(each, "islands"); !islands.empty()) {
      line += "; FP32: " + NamesText(islands);
    }
    text += line.substr(0, kLineBytes) + "\n";
  }
  if (const Json& without = ListAt(answer, "not_on_device"); !without.empty()) {
    text += "  not on this device: " + WordsOf(without) + "\n";
  }
  return text.empty() ? "" : "Alternatives:\n" + text;
}

std::string Layers(const Json& answer) {
  const Json& rows = ListAt(answer, "layers");
  std::string text;
  for (size_t at = 0; at < rows.size() && at < kLayersShown; ++at) {
    if (!NumberAt(rows[at], "alone")) break;
    text += "  " + ModuleText(rows[at]) + ": " + PercentAt(rows[at], "alone");
    if (rows[at].value("near_end", false)) text += ", near the format's end";
    text += "\n";
  }
  return text.empty() ? "" : "Most sensitive (error when it alone is low):\n" + text;
}

std::string Code(const Json& answer, const std::string& library) {
  std::string text;
  for (const Json& each : ListAt(answer, "code")) {
    const std::string name = TextAt(each, "library");
    if (library != "all" && name != library && name != "keep_fp32.py") continue;
    text +=
        "\n```" + TextAt(each, "language") + "\n# " + name + "\n" + TextAt(each, "text") + "```\n";
  }
  return text;
}

std::string Limits(const Json& answer) {
  std::string text;
  for (const Json& each : ListAt(answer, "limits")) {
    if (!each.is_string()) continue;
    const std::string code = each.get<std::string>();
    if (code.starts_with("not_followed:")) {
      text += "Not followed: " + EscapeControl(code.substr(13), 200) + ".\n";
    } else if (code.starts_with("not_confined:")) {
      text +=
          "This system could not keep the code from: " + EscapeControl(code.substr(13), 60) + ".\n";
    } else if (code == "cpu_arithmetic") {
      text +=
          "Computed on the CPU: casts and operator lists are the device's, the order in which "
          "sums are added is not.\n";
    }
  }
  for (const Json& each : ListAt(ObjectAt(answer, "device"), "notes")) {
    if (each.is_string()) {
      text += "Of the device: " + EscapeControl(each.get<std::string>(), 200) + ".\n";
    }
  }
  if (answer.contains("computed_by")) text += python_code::kComputedBy;
  return text;
}

}  // namespace

std::string WayText(const std::string& way) {
  if (way == "fp32") return "FP32";
  if (way == "tf32") return "TF32 products";
  if (way == "bf16-autocast") return "BF16 autocast";
  if (way == "fp16-autocast") return "FP16 autocast with a loss scale";
  if (way == "bf16-weights") return "BF16 weights and gradients, FP32 copies in the optimizer";
  if (way == "fp8-linear") return "FP8 linear layers in BF16 autocast";
  return EscapeControl(way, 60);
}

std::string ReportText(const Json& answer, const std::string& library, size_t bytes) {
  std::string text = Headline(answer);
  text += OwnWholeNumbers(answer) + Islands(answer);
  text += "Against FP32: " + Effect(ObjectAt(answer, "error")) + "; " + Figures(answer) + ".\n";
  if (!ListAt(answer, "islands").empty()) {
    text += "Without islands: " + Effect(ObjectAt(answer, "error_all_low")) + ".\n";
  }
  for (const std::string& part :
       {TrialText(answer), Scaler(answer), States(answer), Alternatives(answer), Limits(answer),
        Code(answer, library), Layers(answer)}) {
    if (text.size() + part.size() <= bytes) text += part;
  }
  if (text.size() > bytes) text = EscapeControl(text.substr(0, bytes - 16), bytes);
  return text;
}

}  // namespace mpnanny::choose_precision
