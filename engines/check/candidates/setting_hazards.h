// Candidates among the settings of a training framework: those that are allowed and that cost
// precision or steps.
//
// Constant data and a free function without state.
#ifndef MPNANNY_ENGINES_CHECK_CANDIDATES_SETTING_HAZARDS_H_
#define MPNANNY_ENGINES_CHECK_CANDIDATES_SETTING_HAZARDS_H_

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "engines/check/candidates/candidate.h"
#include "engines/check/inputs/settings.h"
#include "engines/check/report/suppressions.h"
#include "engines/check/unit.h"

namespace mpnanny::check {

struct SettingHazard {
  std::string_view rule;  // the page that explains it
  Option option;          // which setting is looked at
  bool (*when)(const Settings& all, const Setting& setting);
  double score = 0;
  std::string_view hazard;    // what may go wrong
  std::string_view question;  // what decides
};

std::span<const SettingHazard> SettingHazards();

// Adds the candidates of `settings`, which stand in `unit`; nothing that a comment silences.
// `lines`: of its text. `wanted`: whether candidates of that rule's page count.
void AddSettingCandidates(const Unit& unit, const TextIndex& lines,
                          const std::vector<Settings>& settings,
                          const std::function<bool(std::string_view rule)>& wanted,
                          Suppressions& suppressions, std::vector<Candidate>* candidates);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_CANDIDATES_SETTING_HAZARDS_H_
