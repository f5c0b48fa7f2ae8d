#include "base/log.h"
#include "base/text.h"
#include "engines/check/shared_rules.h"
#include "tools/tool.h"

namespace mpnanny::check {

ResourceTemplate MakeResourceTemplate() {
  ResourceTemplate family;
  family.uri_template = "mpnanny://rules/{rule}";
  family.variable = "rule";
  family.name = "rules";
  family.title = "Static check rules";
  family.description =
      "What a rule of static_check detects, why it goes wrong, bad and good code, its known "
      "limits.";
  family.most_listed = 10;
  family.list = [](const ToolContext& context) {
    std::vector<ResourceTemplate::Entry> entries;
    const auto rules = SharedRules(context.data);
    if (!rules) {
      LogWarning(rules.error().Text());
      return entries;
    }
    for (const RulePage& page : (*rules)->pages()) {
      const std::string severity = page.severity ? SeverityName(*page.severity) : "candidate";
      entries.push_back({page.id, page.id, severity + ": " + page.summary});
    }
    return entries;
  };
  family.read = [](const std::string& value, const ToolContext& context) -> Result<std::string> {
    MPN_TRY_ASSIGN(const auto rules, SharedRules(context.data));
    if (const RulePage* page = rules->Find(value)) return page->text;
    return NoSuchName("rule", value, rules->Ids());
  };
  return family;
}

}  // namespace mpnanny::check
