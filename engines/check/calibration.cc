#include "engines/check/calibration.h"

#include <algorithm>

#include "base/json.h"
#include "engines/check/rule_set.h"

namespace mpnanny::check {
namespace {

constexpr std::string_view kName = "engines/check/data/calibration.json: ";

// The text of a key; empty if it is missing or none.
std::string TextOf(const Json& row, const char* key) {
  const auto it = row.find(key);
  return it != row.end() && it->is_string() ? it->get<std::string>() : std::string();
}

}  // namespace

Result<Calibration> Calibration::Parse(std::string_view json, const std::vector<RulePage>& pages) {
  const auto wrong = [](const std::string& what) {
    return InvalidInput(std::string(kName) + what);
  };
  const auto parsed = ParseJson(json);
  if (!parsed) return wrong(parsed.error().Text());
  const Json& table = *parsed;
  if (!table.is_object() || !table.contains("rows") || !table["rows"].is_array())
    return wrong("no object with \"rows\".");
  Calibration out;
  for (const Json& row : table["rows"]) {
    if (!row.is_object()) return wrong("a row is no object.");
    const std::string rule = TextOf(row, "rule");
    const std::string form = TextOf(row, "form");
    const std::string name = rule + (form.empty() ? "" : "/" + form);
    const auto page = std::find_if(pages.begin(), pages.end(),
                                   [&](const RulePage& one) { return one.id == rule; });
    if (page == pages.end()) return wrong("there is no rule \"" + rule + "\".");
    std::optional<Severity> told;
    if (const std::string text = TextOf(row, "told"); text != "candidate") {
      MPN_TRY_ASSIGN(told, ParseSeverity(text));
      if (*told == Severity::kInfo) return wrong(name + ": \"told\" cannot be info.");
    }
    const std::string basis = TextOf(row, "basis");
    if (TextOf(row, "why").empty()) return wrong(name + " has no \"why\".");
    if (basis != "record" && basis != "proof" && basis != "none")
      return wrong(name + ": \"basis\" is record, proof or none.");
    if (basis == "none" && told) return wrong(name + " is reported, though nothing speaks for it.");
    if (form.empty() ? told != page->severity : told > page->severity)
      return wrong(name + " and the severity of the rule's page differ.");
    if (!out.told_.insert({{rule, form}, told}).second) return wrong(name + " has two rows.");
  }
  for (const RulePage& page : pages) {
    if (page.severity && !out.told_.contains({page.id, ""}))
      return wrong("no row speaks for " + page.id + ", which is an error or a warning.");
  }
  return out;
}

std::optional<Severity> Calibration::Most(std::string_view rule, std::string_view form) const {
  const auto it = told_.find(std::pair(std::string(rule), std::string(form)));
  return it == told_.end() ? std::nullopt : it->second;
}

}  // namespace mpnanny::check
