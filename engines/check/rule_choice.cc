#include "engines/check/rule_choice.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace mpnanny::check {
namespace {

Result<void> Set(const std::vector<std::string>& named, bool on,
                 const std::vector<std::string>& ids, std::vector<bool>* wanted) {
  for (const std::string& id : named) {
    if (id == "all") {
      wanted->assign(wanted->size(), on);
      continue;
    }
    const auto it = std::find(ids.begin(), ids.end(), id);
    if (it == ids.end()) {
      const std::string hint = DidYouMean(id, ids);
      return InvalidInput("There is no rule '" + EscapeControl(id, 80) + "'.",
                          hint.empty() ? "`mpnanny rules` lists them." : hint);
    }
    (*wanted)[static_cast<size_t>(it - ids.begin())] = on;
  }
  return {};
}

}  // namespace

Result<RuleChoice> ChooseRules(const Options& options, const ProjectPolicy* policy,
                               const RuleSet& rules) {
  const std::vector<std::string> ids = rules.Ids();
  const bool by_project = options.rules.empty() && policy != nullptr;
  const bool by_default = options.rules.empty() && (policy == nullptr || policy->select.empty());
  RuleChoice choice;
  for (const RulePage& page : rules.pages()) {
    choice.wanted.push_back(by_default);
    const bool changed = policy != nullptr && policy->severity.contains(page.id);
    choice.severity.push_back(changed ? policy->severity.at(page.id)
                                      : page.severity.value_or(Severity::kInfo));
  }
  std::vector<std::pair<const std::vector<std::string>*, bool>> lists;
  if (by_project)
    lists = {{&policy->select, true}, {&policy->also, true}, {&policy->ignore, false}};
  lists.insert(lists.end(),
               {{&options.rules, true}, {&options.also, true}, {&options.ignore, false}});
  for (const auto& [list, on] : lists) {
    MPN_TRY(Set(*list, on, ids, &choice.wanted));
  }
  return choice;
}

bool NamesRule(const std::vector<std::string>& list, std::string_view rule) {
  return std::find(list.begin(), list.end(), rule) != list.end();
}

std::function<bool(std::string_view rule)> CandidateChoice(const Options& options,
                                                           const Source& source) {
  return [&options, &source](std::string_view rule) {
    const auto in = [&](const std::vector<std::string>& list) {
      return NamesRule(list, rule) || NamesRule(list, "all");
    };
    if (in(options.ignore) || in(source.ignore)) return false;
    if (!options.rules.empty()) return in(options.rules) || in(options.also);
    return source.policy == nullptr || !in(source.policy->ignore);
  };
}

RuleChoice WithoutIgnored(RuleChoice choice, const Source& source, const RuleSet& rules) {
  for (size_t i = 0; i < choice.wanted.size(); ++i) {
    if (NamesRule(source.ignore, rules.pages()[i].id)) choice.wanted[i] = false;
  }
  return choice;
}

}  // namespace mpnanny::check
