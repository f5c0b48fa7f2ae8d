// mpnanny://knowledge/{case}: a whole case as Markdown.
#include "base/text.h"
#include "tools/cases/case.h"
#include "tools/search_knowledge/index.h"
#include "tools/tool.h"

namespace mpnanny::search_knowledge {
namespace {

using cases::Case;

std::vector<ResourceTemplate::Entry> List(const ToolContext& context) {
  std::vector<ResourceTemplate::Entry> entries;
  const auto index = SharedIndex(context.data);
  if (!index) return entries;
  for (const Case& one : (*index)->library().all()) {
    entries.push_back({one.id, one.title, one.symptom});
  }
  return entries;
}

std::string Links(const std::vector<std::string>& items, const std::string& before) {
  std::string text;
  for (const std::string& item : items) text += "- " + before + item + "\n";
  return text;
}

// The page for readers: both titles, the words of the front matter that say something, text, links,
// and the program that shows the failure.
std::string Page(const Case& one, const DataFiles& data) {
  std::string page = "# " + one.title + "\n" + one.title_zh + "\n\n" + one.symptom + "\n" +
                     one.symptom_zh + "\n\nid " + one.id + " · " + one.kind + " · severity " +
                     one.severity + " · category " + one.category + " · precision " +
                     Join(one.precision, ", ") + " · detectable by " +
                     Join(one.detectable_by, ", ") + "\n\n" + one.body;
  if (!one.signals.empty()) {
    page += "\n## Signals\n";
    for (const cases::Signal& signal : one.signals) page += "- `" + signal.text + "`\n";
  }
  page += "\n## Evidence\n" + Links(one.evidence, "");
  if (!one.related.empty()) page += "\n## Related\n" + Links(one.related, "mpnanny://knowledge/");
  const auto program = data.Read(std::string(cases::kCaseFolder) + one.id + ".py");
  if (program) page += "\n## Reproduction\n```python\n" + std::string(*program) + "```\n";
  return page;
}

Result<std::string> Read(const std::string& id, const ToolContext& context) {
  const auto index = SharedIndex(context.data);
  if (!index) return index.error();
  const cases::CaseLibrary& library = (*index)->library();
  if (const Case* found = library.Find(id)) return Page(*found, context.data);
  Error missing = NoSuchName("case", id, library.Ids());
  missing.hint +=
      (missing.hint.empty() ? "" : " ") + std::string("search_knowledge finds cases by symptom.");
  return missing;
}

}  // namespace

ResourceTemplate MakeResourceTemplate() {
  ResourceTemplate resource;
  resource.uri_template = "mpnanny://knowledge/{case}";
  resource.variable = "case";
  resource.name = "knowledge";
  resource.title = "Failure case";
  resource.description =
      "One documented failure: symptom, mechanism with numbers, how to confirm, fix, code, and a "
      "program that shows it.";
  resource.list = List;
  resource.read = Read;
  return resource;
}

}  // namespace mpnanny::search_knowledge
