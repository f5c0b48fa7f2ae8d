#include "tools/auto_diff/finding_text.h"

#include <cmath>

#include "base/text.h"
#include "engines/python_code/fields.h"
#include "engines/python_code/whole_numbers.h"
#include "engines/runs/operator_words.h"
#include "engines/runs/shadow.h"
#include "engines/runs/shadow_text.h"
#include "engines/runs/show.h"

namespace mpnanny::auto_diff {
namespace {

using python_code::ListAt;
using python_code::NumberAt;
using python_code::TextAt;

runs::ShadowFinding AsShadowFinding(const Json& finding, const Json& cure) {
  runs::ShadowFinding made;
  made.kind = Word<FindingKind>(TextAt(finding, "what"));
  made.op = TextAt(finding, "op");
  made.source = TextAt(finding, "source");
  made.phase = Word<Phase>(TextAt(finding, "phase"));
  made.dtype = TextAt(finding, "dtype");
  made.shape = TextAt(finding, "shape");
  made.share = NumberAt(finding, "share");
  made.magnitude = NumberAt(finding, "magnitude");
  made.error_in = NumberAt(finding, "error_in");
  made.error_out = NumberAt(finding, "accumulated");
  made.proof = Word<Proof>(TextAt(finding, "precision"));
  for (const Json& each : ListAt(finding, "operands")) {
    if (!each.is_array() || each.size() != 2 || !each[0].is_number() || !each[1].is_number()) {
      made.operands.clear();
      break;
    }
    made.operands.push_back({each[0].get<double>(), each[1].get<double>()});
  }
  for (const Json& each : ListAt(finding, "inputs_from")) {
    if (each.is_array() && each.size() == 2 && each[0].is_string() && each[1].is_string()) {
      made.inputs_from.push_back({each[0].get<std::string>(), each[1].get<std::string>()});
    }
  }
  for (const Json& each : ListAt(finding, "reaches")) {
    auto error = NumberAt(each, "error");
    if (error && !std::isfinite(*error)) error.reset();
    made.reach.push_back({TextAt(each, "what"), TextAt(each, "name"), error});
  }
  if (cure.is_object()) {
    runs::ShadowCure& known = made.cure.emplace();
    for (const Json& line : ListAt(cure, "lines")) {
      if (line.is_string()) known.lines.push_back(line.get<std::string>());
    }
    for (const Json& each : ListAt(cure, "operators")) {
      if (each.is_string()) known.operators.push_back(each.get<std::string>());
    }
    known.what = TextAt(cure, "what");
    known.error_before = NumberAt(cure, "error_before");
    known.error_after = NumberAt(cure, "error_after");
  }
  return made;
}

std::string Percent(const std::optional<double>& share) {
  return share ? runs::PercentText(*share) : "some";
}

}  // namespace

std::string PlaceOf(const Json& finding) {
  const std::string source = EscapeControl(TextAt(finding, "source"), 200);
  const std::string op = TextAt(finding, "op");
  if (op.empty()) return source.empty() ? EscapeControl(TextAt(finding, "module"), 200) : source;
  const std::string word = runs::OperatorWord(op);
  return source.empty() ? word : word + " at " + source;
}

std::string FindingSentence(const Json& finding, const Json& cure) {
  const std::string what = TextAt(finding, "what");
  const std::string module = TextAt(finding, "module");
  if (what == "raised") {
    return PlaceOf(finding) + " stops with " + EscapeControl(TextAt(finding, "error"), 400) +
           ", which FP32 does not.";
  }
  if (what == "decision") {
    return PlaceOf(finding) + ": " + Percent(NumberAt(finding, "share")) +
           " of its whole numbers (indices, bins, masks) are others than in FP32.";
  }
  if (what == "whole_numbers") {
    return PlaceOf(finding) + ": " + Percent(NumberAt(finding, "share")) +
           " of its whole numbers are wrong: the dtype does not hold them.";
  }
  if (what == "input") {
    return "Of " + EscapeControl(module, 200) + " " + Percent(NumberAt(finding, "share")) +
           " of the elements are beyond the dtype's range already (up to " +
           runs::Number(NumberAt(finding, "magnitude"), 4) + ").";
  }
  if (what == "spread") {
    return "No single operator is to blame: the error grows step by step, and at " +
           PlaceOf(finding) + " it is " + Percent(NumberAt(finding, "accumulated")) + ".";
  }
  if (what == "output") {
    const bool range = TextAt(finding, "kind") == "range";
    return "The output of module " + EscapeControl(module, 200) +
           (range ? " is the first that is not finite."
                  : " is the first that is far from FP32: " +
                        Percent(NumberAt(finding, "accumulated")) + ".");
  }
  const auto shows = finding.find("shows_at");
  if (shows == finding.end() || !shows->is_object()) {
    return runs::FindingText(AsShadowFinding(finding, cure), module) +
           python_code::GrowthText(finding);
  }
  Json seen = finding;  // the operator at which it is seen
  seen.update(*shows);
  return "precision is lost at the " + PlaceOf(finding) + ", and it shows there: " +
         runs::FindingText(AsShadowFinding(seen, cure), TextAt(*shows, "module"));
}

}  // namespace mpnanny::auto_diff
