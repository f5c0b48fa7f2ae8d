#include "engines/python_code/whole_numbers.h"

#include "base/text.h"
#include "engines/python_code/fields.h"
#include "engines/runs/operator_words.h"
#include "engines/runs/shadow.h"
#include "engines/runs/shadow_text.h"

namespace mpnanny::python_code {

std::string GrowthText(const Json& finding) {
  const auto grows = finding.find("grows");
  if (grows == finding.end() || !grows->is_object()) return "";
  std::string place = runs::OperatorWord(TextAt(*grows, "op"));
  if (const std::string source = EscapeControl(TextAt(*grows, "source"), 200); !source.empty()) {
    place += " at " + source;
  }
  return " Of this the " + place + " makes an error of " + PercentAt(*grows, "error") + ".";
}

std::string WholeNumbersText(const Json& changed) {
  runs::ShadowFinding finding;
  finding.kind = FindingKind::kIntegers;
  finding.op = TextAt(changed, "op");
  finding.source = TextAt(changed, "source");
  finding.dtype = TextAt(changed, "dtype");
  finding.phase = Phase::kForward;
  finding.share = NumberAt(changed, "share");
  finding.magnitude = NumberAt(changed, "magnitude");
  return runs::FindingText(finding, TextAt(changed, "module")) + GrowthText(changed);
}

}  // namespace mpnanny::python_code
