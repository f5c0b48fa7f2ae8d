#include "engines/cases/page.h"

#include <array>

#include "base/text.h"

namespace mpnanny::cases {
namespace {

struct Part {
  std::string_view name, heading;
};
constexpr std::array<Part, 7> kParts = {{{"symptom", "Symptom"},
                                         {"mechanism", "Mechanism"},
                                         {"confirm", "How to confirm"},
                                         {"fix", "Fix"},
                                         {"code", "Code"},
                                         {"evidence", "Evidence"},
                                         {"reproduction", "Reproduction"}}};

std::string Links(const std::vector<std::string>& items, const std::string& before) {
  std::string text;
  for (const std::string& item : items) text += "- " + before + item + "\n";
  return text;
}

// "pytorch, vllm on cuda, torch>=2.9; verified 2026-11-23 with torch 2.13.0"
std::string Affected(const Case& one) {
  return Join(one.frameworks, ", ") + " on " +
         (one.devices == std::vector<std::string>{"any"} ? "any device" : Join(one.devices, ", ")) +
         (one.versions.empty() ? "" : ", " + Join(one.versions, ", ")) + "; verified " +
         one.verified + " with " + Join(one.verified_with, ", ");
}

// Evidence is the list of links and what was verified with what.
std::string Evidence(const Case& one) {
  return Links(one.evidence, "") + "\n" + Affected(one) + "\n";
}

std::string Program(const Case& one, const DataFiles& data) {
  const auto program = data.Read(std::string(kCaseFolder) + one.id + ".py");
  return program ? "```python\n" + std::string(*program) + "```\n" : "";
}

}  // namespace

std::vector<std::string> PartNames() {
  std::vector<std::string> names;
  for (const Part& part : kParts) names.emplace_back(part.name);
  return names;
}

std::string WholePage(const Case& one, const DataFiles& data) {
  std::string page = "# " + one.title + "\n" + one.title_zh + "\n\n" + one.symptom + "\n" +
                     one.symptom_zh + "\n\nid " + one.id + " · " + one.kind + " · severity " +
                     one.severity + " · category " + one.category + " · precision " +
                     Join(one.precision, ", ") + " · detectable by " +
                     Join(one.detectable_by, ", ") + "\n\n" + one.body;
  if (!one.signals.empty()) {
    page += "\n## Signals\n";
    for (const Signal& signal : one.signals) page += "- `" + signal.text + "`\n";
  }
  page += "\n## Evidence\n" + Evidence(one);
  if (!one.related.empty()) page += "\n## Related\n" + Links(one.related, "mpnanny://knowledge/");
  if (const std::string program = Program(one, data); !program.empty()) {
    page += "\n## Reproduction\n" + program;
  }
  return page;
}

Result<std::string> PagePart(const Case& one, std::string_view part, const DataFiles& data) {
  for (const Part& each : kParts) {
    if (each.name != part) continue;
    std::string text;
    if (part == "evidence") {
      text = Evidence(one);
    } else if (part == "reproduction") {
      text = Program(one, data);
      if (text.empty()) {
        return NotFound("Case '" + one.id + "' has no program: a CPU cannot show it.",
                        "Its part 'confirm' says what to look at.");
      }
    } else {
      text = Section(one.body, each.heading) + "\n";
    }
    return "# " + one.title + "\n\n## " + std::string(each.heading) + "\n" + text;
  }
  return InvalidInput("'" + EscapeControl(part, 60) + "' is no part of a case.",
                      "Parts: " + Join(PartNames(), ", ") + ".");
}

Result<const Case*> FindCase(const CaseLibrary& library, const std::string& id) {
  if (const Case* found = library.Find(id)) return found;
  Error missing = NoSuchName("case", id, library.Ids());
  missing.hint +=
      (missing.hint.empty() ? "" : " ") + std::string("search_knowledge finds cases by symptom.");
  return missing;
}

}  // namespace mpnanny::cases
