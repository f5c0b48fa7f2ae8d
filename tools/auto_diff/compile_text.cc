#include "tools/auto_diff/compile_text.h"

#include <cstddef>

#include "base/text.h"
#include "engines/python_code/fields.h"
#include "engines/runs/operator_words.h"
#include "engines/runs/show.h"
#include "tools/auto_diff/finding_text.h"

namespace mpnanny::auto_diff {
namespace {

using python_code::ListAt;
using python_code::NumberAt;
using python_code::PercentAt;
using python_code::TextAt;

constexpr size_t kBreaksShown = 4;

std::string Shown(const Json& object, const char* key) {
  return EscapeControl(TextAt(object, key), 300);
}

std::string ErrorAt(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found != object.end() && found->is_string()) return "infinite";
  const auto value = NumberAt(object, key);
  return value ? runs::Number(*value, 3) : "not known";
}

// "Inductor's kernels", of a stage as the answer has it.
std::string StageWords(const std::string& stage) {
  if (stage == "dynamo") return "Dynamo, which traces the program";
  if (stage == "autograd") return "AOTAutograd, which derives it and takes mutations out";
  if (stage == "decompositions") return "Inductor's decompositions and passes over graphs";
  if (stage == "inductor") return "Inductor's kernels";
  return EscapeControl(stage, 40);
}

// What the place has to do with it.
std::string Way(const Json& first) {
  const std::string way = TextAt(first, "way");
  if (way == "kernel") return "The kernel of this operator alone gives something else.";
  if (way == "decomposition") return "What it is taken apart into gives something else.";
  if (way == "rounding") {
    return "The roundings of this line alone move the result as far: no kernel is wrong, and in a "
           "format this narrow one of both has lost the result.";
  }
  if (way == "only_compiled") return "This line runs only when the program is compiled.";
  if (way == "only_eager") return "This line does not run when the program is compiled.";
  if (way == "output") return "It makes the first result that is another one.";
  if (way == "values") return "It is the first line whose values are others.";
  if (way != "fusion" && way != "cut") return "";
  std::string ops;
  for (const Json& each : ListAt(first, "fusion")) {
    if (!each.is_string()) continue;
    ops += (ops.empty() ? "" : ", ") + runs::OperatorWord(each.get<std::string>());
  }
  if (way == "cut") {
    return "It parts still where only this stretch is compiled, and not where less of it is: " +
           EscapeControl(ops, 300) + ".";
  }
  return "Compiled together these part, each alone does not: " + EscapeControl(ops, 300) + ".";
}

std::string What(const Json& first) {
  const std::string what = TextAt(first, "what");
  const std::string name = Shown(first, "value");
  if (what == "raised") return "compiled it stops with " + Shown(first, "error");
  if (what == "raised_by_eager") {
    return "compiled it runs, and as it is written it stops with " + Shown(first, "error");
  }
  if (what == "nonfinite") {
    return name + " is finite in one of both only, in " + PercentAt(first, "share") +
           " of its elements";
  }
  if (what == "whole_numbers") {
    return PercentAt(first, "share") + " of the whole numbers of " + name + " are others";
  }
  if (what == "dtype") return name + " has another dtype: " + Shown(first, "dtype");
  if (what == "shape") return name + " has another shape";
  if (what == "missing") return name + " is there in one of both only";
  return name + " is " + PercentAt(first, "accumulated") + " away from the eager program's, in " +
         PercentAt(first, "share") + " of its elements further than roundings go";
}

std::string First(const Json& first) {
  const std::string place = PlaceOf(first);
  std::string text = "First: " + (place.empty() ? "" : place + ": ") + What(first) + ".";
  if (const std::string way = Way(first); !way.empty()) text += " " + way;
  if (TextAt(first, "phase") == "backward") text += " It is in the backward pass.";
  return text + "\n";
}

std::string Nearer(const Json& first, const std::string& nearer) {
  if (!NumberAt(first, "eager_error") && !NumberAt(first, "compiled_error")) return "";
  const std::string word = nearer == "neither" ? "neither" : EscapeControl(nearer, 20);
  return "Nearer to FP64: " + word + " (error eager " + ErrorAt(first, "eager_error") +
         ", compiled " + ErrorAt(first, "compiled_error") + ").\n";
}

std::string Switch(const Json& compile) {
  const auto found = compile.find("switch");
  if (found == compile.end() || !found->is_object()) return "";
  std::string text = "Removed by " + Shown(*found, "what");
  if (NumberAt(*found, "error_after")) {
    text += ": the difference falls from " + ErrorAt(*found, "error_before") + " to " +
            ErrorAt(*found, "error_after");
  } else {
    text += " (not measured)";
  }
  return text + ".\n";
}

std::string Breaks(const Json& compile) {
  std::string text;
  const Json& breaks = ListAt(compile, "graph_breaks");
  for (size_t at = 0; at < breaks.size() && at < kBreaksShown; ++at) {
    text += "Dynamo leaves the program at " + Shown(breaks[at], "source") + ": " +
            Shown(breaks[at], "reason") + ".\n";
  }
  return text;
}

}  // namespace

bool IsOfCompiler(const Json& answer) {
  const auto found = answer.find("compile");
  return found != answer.end() && found->is_object();
}

std::string CompileText(const Json& answer) {
  const Json& compile = answer["compile"];
  const std::string verdict = TextAt(answer, "verdict");
  std::string text = Shown(answer, "target") + ", compiled beside as it is written: ";
  if (verdict == "clean") {
    text += "clean. Its " + runs::Number(NumberAt(compile, "compared"), 6) +
            " results (outputs, gradients, what it writes) part no further than roundings do.\n";
    if (NumberAt(compile, "graphs") == 0.0) {
      text += "Dynamo made no graph of it: nothing was compiled.\n";
    }
  } else {
    text += EscapeControl(verdict, 40) + ".\n";
  }
  const auto first = answer.find("first_bad");
  if (first != answer.end() && first->is_object()) {
    text += First(*first);
    if (const std::string stage = TextAt(compile, "stage"); !stage.empty()) {
      text += "It comes in with " + StageWords(stage) + ".\n";
    }
    text += Nearer(*first, TextAt(compile, "nearer")) + Switch(compile);
  }
  const Json& steps = ListAt(answer, "steps");
  if (!steps.empty()) {
    text += "Training: loss of step " + std::to_string(steps.size()) + " eager " +
            ErrorAt(steps.back(), "eager") + ", compiled " + ErrorAt(steps.back(), "compiled") +
            ".\n";
  }
  return text + Breaks(compile);
}

}  // namespace mpnanny::auto_diff
