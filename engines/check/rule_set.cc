#include "engines/check/rule_set.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/front_matter.h"
#include "base/text.h"
#include "engines/check/candidates/hazards.h"
#include "engines/check/candidates/setting_hazards.h"

namespace mpnanny::check {
namespace {

constexpr std::string_view kFolder = "engines/check/rules/";

constexpr std::array<std::string_view, 10> kKeys = {
    "id", "summary", "severity", "confidence", "status", "since", "tier", "cases", "why", "fix"};
// The severity of a page that explains places to judge.
constexpr std::string_view kCandidate = "candidate";

std::string_view Stem(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);
  return path.substr(0, path.rfind('.'));
}

}  // namespace

RuleSet::RuleSet() = default;
RuleSet::~RuleSet() = default;

Result<RulePage> ParseRulePage(std::string_view text, std::string_view name) {
  MPN_TRY_ASSIGN(auto matter, ParseFrontMatter(text, name));
  const std::string where = std::string(name) + ": ";
  for (const auto& [key, value] : matter.fields.items()) {
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
      return InvalidInput(where + "unknown key \"" + key + "\".",
                          DidYouMean(key, std::vector<std::string>(kKeys.begin(), kKeys.end())));
    }
  }
  RulePage page;
  for (const auto& [key, field] : {std::pair{"id", &page.id},
                                   {"summary", &page.summary},
                                   {"confidence", &page.confidence},
                                   {"status", &page.status},
                                   {"since", &page.since},
                                   {"tier", &page.tier},
                                   {"why", &page.why},
                                   {"fix", &page.fix}}) {
    const auto it = matter.fields.find(key);
    if (it == matter.fields.end() || !it->is_string() || it->get<std::string>().empty()) {
      return InvalidInput(where + "\"" + key + "\" is missing or no text.",
                          "See engines/check/rules/README.md.");
    }
    *field = it->get<std::string>();
  }
  const auto severity = matter.fields.find("severity");
  if (severity == matter.fields.end() || !severity->is_string())
    return InvalidInput(where + "\"severity\" is missing.");
  if (*severity != kCandidate) {
    const auto parsed = ParseSeverity(severity->get<std::string>());
    if (!parsed || *parsed == Severity::kInfo)
      return InvalidInput(where + "\"severity\" must be error, warning or candidate.");
    page.severity = *parsed;
  }
  if (page.confidence != "high" && page.confidence != "medium" && page.confidence != "low") {
    return InvalidInput(where + "\"confidence\" must be high, medium or low.");
  }
  if (const auto cases = matter.fields.find("cases"); cases != matter.fields.end()) {
    if (!cases->is_array()) return InvalidInput(where + "\"cases\" must be a list.");
    for (const Json& one : *cases) {
      if (!one.is_string()) return InvalidInput(where + "\"cases\" must be a list of ids.");
      page.cases.push_back(one.get<std::string>());
    }
  }
  page.body = std::move(matter.body);
  page.text = std::string(text);
  return page;
}

Result<std::shared_ptr<const RuleSet>> RuleSet::Load(const DataFiles& data) {
  std::shared_ptr<RuleSet> set(new RuleSet());
  const auto table = data.Read("engines/check/data/autocast_ops.json");
  if (!table) return Internal("engines/check/data/autocast_ops.json is missing.");
  const auto functions = data.Read("engines/check/data/torch_functions.json");
  if (!functions) return Internal("engines/check/data/torch_functions.json is missing.");
  MPN_TRY_ASSIGN(auto ops, OpTable::Parse(*table, *functions));
  set->ops_ = std::move(ops);

  for (const std::string& path : data.List(kFolder, ".md")) {
    if (Stem(path) == "README" || Stem(path).starts_with('_')) continue;
    MPN_TRY_ASSIGN(auto page, ParseRulePage(*data.Read(path), path));
    if (page.id != Stem(path))
      return InvalidInput(path + ": the id \"" + page.id + "\" is not the file's name.");
    set->pages_.push_back(std::move(page));
  }
  const auto trust = data.Read("engines/check/data/calibration.json");
  if (!trust) return Internal("engines/check/data/calibration.json is missing.");
  MPN_TRY_ASSIGN(auto calibration, Calibration::Parse(*trust, set->pages_));
  set->calibration_ = std::move(calibration);
  set->checks_.resize(set->pages_.size());
  set->settings_checks_.resize(set->pages_.size());
  const auto index_of = [&](std::string_view id) {
    const auto it = std::find_if(set->pages_.begin(), set->pages_.end(),
                                 [&](const RulePage& p) { return p.id == id; });
    return static_cast<size_t>(it - set->pages_.begin());
  };
  for (const CompiledCheck& compiled : AllRuleChecks()) {
    const size_t index = index_of(compiled.id);
    if (index == set->pages_.size())
      return InvalidInput("The rule " + std::string(compiled.id) + " has a check and no page.");
    set->checks_[index] = compiled.check;
    set->settings_checks_[index] = compiled.settings_check;
  }
  std::vector<std::string_view> hazards;
  for (const Hazard& one : Hazards()) hazards.push_back(one.rule);
  for (const SettingHazard& one : SettingHazards()) hazards.push_back(one.rule);
  for (const std::string_view rule : hazards) {
    if (index_of(rule) == set->pages_.size())
      return InvalidInput("The hazard " + std::string(rule) + " has no page.");
  }
  for (size_t i = 0; i < set->pages_.size(); ++i) {
    const bool has_check = set->checks_[i] != nullptr || set->settings_checks_[i] != nullptr;
    if (has_check != set->pages_[i].severity.has_value())
      return InvalidInput("The page " + set->pages_[i].id +
                          (has_check ? " is of a candidate and has a check."
                                     : " is of an error or a warning and has no check."));
  }
  return std::shared_ptr<const RuleSet>(std::move(set));
}

const RulePage* RuleSet::Find(std::string_view id) const {
  const auto it = std::find_if(pages_.begin(), pages_.end(),
                               [&](const RulePage& page) { return page.id == id; });
  return it == pages_.end() ? nullptr : &*it;
}

std::vector<std::string> RuleSet::Ids() const {
  std::vector<std::string> ids;
  for (const RulePage& page : pages_) ids.push_back(page.id);
  return ids;
}

}  // namespace mpnanny::check
