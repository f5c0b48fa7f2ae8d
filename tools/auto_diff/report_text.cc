#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/text.h"
#include "engines/python_code/fields.h"
#include "engines/runs/shadow_text.h"
#include "engines/runs/show.h"
#include "tools/auto_diff/compile_text.h"
#include "tools/auto_diff/finding_text.h"
#include "tools/auto_diff/report.h"

namespace mpnanny::auto_diff {
namespace {

using python_code::ListAt;
using python_code::NumberAt;
using python_code::PercentAt;
using python_code::TextAt;
using python_code::WordsOf;

constexpr size_t kLayersShown = 12;
constexpr size_t kContributorsShown = 5;

std::string UpperCase(std::string text) {
  for (char& each : text) each = static_cast<char>(each >= 'a' && each <= 'z' ? each - 32 : each);
  return text;
}

std::string FigureAt(const Json& object, const char* key) {
  const auto value = NumberAt(object, key);
  return value ? runs::Number(*value, 5) : "not known";
}

// Whether no operator of the run in the low precision met it: then it says nothing of it.
bool NothingLow(const Json& answer) {
  for (const Json& each : ListAt(answer, "limits")) {
    if (each == "nothing_in_low_precision") return true;
  }
  return false;
}

// "0 of 23 operators ran in FP16".
std::string NoneRan(const Json& answer) {
  return "0 of " + runs::Number(NumberAt(answer, "operators"), 8) + " operators ran in " +
         UpperCase(TextAt(answer, "dtype"));
}

// Why this dtype and this policy were tried, where nobody chose them: what the code says, or that
// it says nothing.
std::string ChosenBy(const Json& answer) {
  std::vector<std::string> said;
  for (const Json& each : ListAt(answer, "chosen_by")) {
    if (each.is_string()) said.push_back(EscapeControl(each.get<std::string>(), 200));
  }
  if (!answer.contains("chosen_by") || TextAt(answer, "dtype").empty()) return "";
  const std::string tried =
      UpperCase(TextAt(answer, "dtype")) + " under " + TextAt(answer, "policy");
  if (said.empty()) {
    return "Tried " + tried + ": the code says no other. Choose with `dtype` and `policy`.\n";
  }
  const Json& policies = ListAt(answer, "policies_tried");
  if (policies.empty()) {
    return "Tried " + tried + ", as the code says: " + Join(said, "; ") + ".\n";
  }
  return "Tried " + UpperCase(TextAt(answer, "dtype")) + ", as the code says: " + Join(said, "; ") +
         ". It names no device before it runs: tried under " + WordsOf(policies) +
         (policies.size() > 1 ? "; the worse one is shown." : ".") + "\n";
}

// "auto_diff of losses.py:giou_loss in FP16 under cuda-autocast (emulated on the CPU): broken."
std::string Headline(const Json& answer) {
  std::string text = EscapeControl(TextAt(answer, "target"), 200);
  if (const std::string dtype = TextAt(answer, "dtype"); !dtype.empty()) {
    text += " in " + UpperCase(dtype) + " under " + TextAt(answer, "policy");
    if (TextAt(answer, "mode") == "emulated") text += " (emulated)";
  }
  const std::string verdict = TextAt(answer, "verdict");
  if (verdict == "clean") {
    return text + ": clean. No difference from FP64 beyond what this dtype must have.";
  }
  if (verdict == "not_established") {
    return text + ": not established" +
           (NothingLow(answer) ? ": " + NoneRan(answer) + ": nothing was tested" : "") + ".";
  }
  return text + ": " + verdict + ".";
}

// "float16 and float32": of the inputs that were tried.
std::string DtypesTried(const Json& proof) {
  std::vector<std::string> dtypes;
  for (const Json& each : ListAt(proof, "tried")) {
    const std::string one = EscapeControl(TextAt(each, "dtypes"), 100);
    if (!one.empty() && std::find(dtypes.begin(), dtypes.end(), one) == dtypes.end()) {
      dtypes.push_back(one);
    }
  }
  return Join(dtypes, "; ");
}

std::string Proof(const Json& answer, const Json& proof) {
  const std::string result = TextAt(proof, "result");
  std::string text = EscapeControl(TextAt(proof, "line"), 300);
  if (const std::string name = TextAt(proof, "function"); !name.empty()) {
    text += " (" + EscapeControl(name, 200) + ")";
  }
  if (result == "confirmed") {
    return text + ": CONFIRMED with the inputs " + WordsOf(ListAt(proof, "input")) + ".\n";
  }
  if (result == "not_at_these_inputs") {
    std::vector<std::string> ranges;
    for (const Json& each : ListAt(proof, "tried")) {
      const std::string range = EscapeControl(TextAt(each, "range"), 100);
      if (!range.empty() && std::find(ranges.begin(), ranges.end(), range) == ranges.end()) {
        ranges.push_back(range);
      }
    }
    const std::string dtypes = DtypesTried(proof);
    return text + ": not at these inputs. Tried: " + Join(ranges, "; ") +
           (dtypes.empty() ? "" : ", as " + dtypes) + ".\n";
  }
  if (result == "not_in_low_precision") {
    return text + ": NOT TRIED in " + UpperCase(TextAt(answer, "dtype")) + ": " + NoneRan(answer) +
           ", so this refutes nothing. What gives this line its 16-bit values in the training is "
           "not in its function: write a snippet (`code`) that does.\n";
  }
  return text + ": cannot be run alone. Missing: " + WordsOf(ListAt(proof, "missing")) +
         ". Give a snippet (`code`) that calls it with real inputs, or record the training "
         "(`mpnanny "
         "run -- python …`): its shadow steps measure the line as it runs, and diagnose_run "
         "tells.\n";
}

std::string Ends(const Json& answer) {
  std::string text;
  for (const Json& each : ListAt(answer, "output")) {
    text += "Output " + EscapeControl(TextAt(each, "name"), 100) + " (" + TextAt(each, "dtype") +
            "): relative error " + PercentAt(each, "error");
    if (const auto expected = NumberAt(each, "expected"); expected && *expected > 0) {
      text += "; the roundings alone add up to " + PercentAt(each, "expected");
    }
    text += ".\n";
  }
  if (const auto loss = answer.find("loss"); loss != answer.end() && loss->is_object()) {
    text += "Loss: " + FigureAt(*loss, "low") + ", exact " + FigureAt(*loss, "reference") +
            ", in FP32 " + FigureAt(*loss, "fp32") + ".\n";
  }
  if (const auto found = answer.find("gradients"); found != answer.end() && found->is_object()) {
    text += "Gradients";
    if (found->contains("error")) text += ": relative error " + PercentAt(*found, "error");
    if (const auto scale = NumberAt(*found, "loss_scale"); scale && *scale != 1) {
      text += " at loss scale " + runs::Number(*scale, 6);
    }
    const Json& worst = ListAt(*found, "worst");
    if (!worst.empty()) {
      text += "; worst " + EscapeControl(TextAt(worst[0], "name"), 200) + " " +
              PercentAt(worst[0], "error");
    }
    text += ".\n";
  }
  const Json& steps = ListAt(answer, "steps");
  if (!steps.empty()) {
    text += "Training: loss after " + std::to_string(steps.size()) + " steps " +
            FigureAt(steps.back(), "low") + ", in FP32 " + FigureAt(steps.back(), "fp32") + ".\n";
  }
  return text;
}

std::string Layers(const Json& answer) {
  std::vector<Json> rows(ListAt(answer, "layers").begin(), ListAt(answer, "layers").end());
  if (rows.empty()) return "";
  std::string text =
      "Module (or line), error of its result, added by its own operators, largest:\n";
  for (size_t at = 0; at < rows.size() && at < kLayersShown; ++at) {
    const Json& row = rows[at];
    text += "  " + EscapeControl(TextAt(row, "module"), 120) + "  " + PercentAt(row, "accumulated");
    text += row.contains("local") ? "  " + PercentAt(row, "local") : "";
    text += "  " + FigureAt(row, "absmax");
    if (const auto bad = NumberAt(row, "nonfinite"); bad && *bad > 0) {
      text += "  not finite: " + runs::Number(*bad, 6);
    }
    text += "\n";
  }
  if (rows.size() > kLayersShown) {
    text += "  and " + std::to_string(rows.size() - kLayersShown) + " more\n";
  }
  return text;
}

std::string Contributors(const Json& answer) {
  const Json& rows = ListAt(answer, "contributors");
  std::string text;
  for (size_t at = 0; at < rows.size() && at < kContributorsShown; ++at) {
    text += (at == 0 ? "Most rounding is done by " : ", ") + PlaceOf(rows[at]) + " (" +
            PercentAt(rows[at], "local") + " each)";
  }
  return text.empty() ? "" : text + ".\n";
}

std::string Dimensions(const Json& answer) {
  std::string text;
  for (const Json& row : ListAt(answer, "dims")) {
    const auto imbalance = NumberAt(row, "imbalance");
    if (!imbalance || *imbalance < 1e3) continue;
    text += "Input of " + EscapeControl(TextAt(row, "what"), 200) + ": slices along dimension " +
            FigureAt(row, "dim") + " differ " + FigureAt(row, "imbalance") + "-fold; " +
            PercentAt(row, "absorbed") + " of them vanish beside the largest.\n";
  }
  return text;
}

std::string Limits(const Json& answer) {
  std::string text;
  for (const Json& each : ListAt(answer, "emulated")) {
    if (each == "cpu_arithmetic") {
      text +=
          "Computed on the CPU: casts and operator lists are the device's, the order in which "
          "sums are added is not.\n";
    } else if (each == "fp8_simulated") {
      text += "FP8 is simulated in linear layers; the rest runs in BF16.\n";
    }
  }
  for (const Json& each : ListAt(answer, "limits")) {
    if (!each.is_string()) continue;
    const std::string code = each.get<std::string>();
    if (code == "no_gradients") {
      text += "No gradients: the outputs do not depend on what could have one.\n";
    } else if (code == "inputs_were_made") {
      std::vector<std::string> words;
      for (const Json& made : ListAt(answer, "inputs")) {
        words.push_back(EscapeControl(TextAt(made, "name") + "=" + TextAt(made, "words"), 200));
      }
      text += "No inputs were given; these were made by trying: " + Join(words, " ") +
              ". Give those of your training with `input`.\n";
    } else if (code == "operators_not_followed") {
      text += "Operators were not followed (level modules): leave out `level` for the line.\n";
    } else if (code == "switches_not_tried") {
      text += "Time ran out before every switch was tried: raise `timeout_s`.\n";
    } else if (code.starts_with("not_followed:")) {
      text += "Not followed: " + EscapeControl(code.substr(13), 200) + ".\n";
    } else if (code.starts_with("not_confined:")) {
      text +=
          "This system could not keep the code from: " + EscapeControl(code.substr(13), 60) + ".\n";
    }
  }
  if (answer.contains("computed_by")) text += python_code::kComputedBy;
  return text;
}

std::string Next(const Json& answer) {
  const std::string verdict = TextAt(answer, "verdict");
  if (answer.contains("proof")) return "";
  if (NothingLow(answer)) {
    const std::string dtype = TextAt(answer, "dtype") == "fp16" ? "float16" : "bfloat16";
    return "Autocast casts nothing of it, and its inputs are wider. Where a layer makes them in "
           "the "
           "training they are 16-bit: give " +
           dtype + "[...], or `policy` pure.\n";
  }
  if (verdict == "clean") {
    return "It says so for these inputs: try ranges that occur in training (~normal(0,30), "
           "~lognormal(0,4), ~offset(1000), ~equal_rows, ~zeros).\n";
  }
  if (verdict == "broken" || verdict == "degraded") {
    return "Keep the named lines in FP32 (or rewrite them) and call auto_diff again: it must say "
           "clean.\n";
  }
  return "";
}

}  // namespace

std::string ReportText(const Json& answer, size_t bytes) {
  if (IsOfCompiler(answer)) {
    const std::string text = CompileText(answer) + Limits(answer);
    return text.size() > bytes ? EscapeControl(text.substr(0, bytes - 16), bytes) : text;
  }
  std::string text;
  if (const auto proof = answer.find("proof"); proof != answer.end() && proof->is_object()) {
    text += Proof(answer, *proof);
  }
  if (answer.contains("target")) {
    const std::string verdict = TextAt(answer, "verdict");
    const bool other = answer.contains("proof") && answer["proof"]["result"] != "confirmed" &&
                       (verdict == "broken" || verdict == "degraded");
    text += (other ? "The worst of these runs, whose fault is elsewhere: " : "") +
            Headline(answer) + "\n" + ChosenBy(answer);
  }
  const auto first = answer.find("first_bad");
  const Json none;
  const auto cure = answer.find("cure");
  if (first != answer.end() && first->is_object()) {
    text += "First: " + FindingSentence(*first, cure == answer.end() ? none : *cure) + "\n";
    if (first->contains("grows") && ListAt(*first, "reaches").empty()) {
      text +=
          "At these inputs and weights no output shows more than this dtype must have; trained "
          "weights may depend on it.\n";
    }
  }
  const Json& others = ListAt(answer, "findings");
  for (size_t at = 0; at < others.size() && at < 4; ++at) {
    text += "Also: " + FindingSentence(others[at], none) + "\n";
  }
  if (const Json& keep = ListAt(answer, "keep_fp32"); !keep.empty()) {
    text += "Keep in FP32: " + WordsOf(keep) + ".\n";
  }
  for (const Json& each : ListAt(answer, "ill_conditioned")) {
    text += "Ill-conditioned already in FP32: " + PlaceOf(each) + " (error " +
            PercentAt(each, "error") + ").\n";
  }
  text += Ends(answer);
  text += Dimensions(answer);
  for (const std::string& part :
       {Next(answer), Limits(answer), Contributors(answer), Layers(answer)}) {
    if (text.size() + part.size() <= bytes) text += part;
  }
  if (text.size() > bytes) text = EscapeControl(text.substr(0, bytes - 16), bytes);
  return text;
}

}  // namespace mpnanny::auto_diff
