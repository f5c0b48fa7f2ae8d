// mpnanny://knowledge/{case}: a whole case as Markdown.
#include "engines/cases/page.h"
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

Result<std::string> Read(const std::string& id, const ToolContext& context) {
  MPN_TRY_ASSIGN(const auto index, SharedIndex(context.data));
  MPN_TRY_ASSIGN(const auto found, cases::FindCase(index->library(), id));
  return cases::WholePage(*found, context.data);
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
  resource.most_listed = 10;
  resource.list = List;
  resource.read = Read;
  return resource;
}

}  // namespace mpnanny::search_knowledge
