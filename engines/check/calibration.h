// How loudly a finding may be told: the one table of what errors and warnings rest on
// (data/calibration.json), read and held against the rules' pages.
//
// A finding is an error or a warning where blind draws of public code were judged mostly true, or
// where the text proves that it fails; bench/evaluations/static_check/precision.md has the rows.
// Owns its table; immutable after Parse().
#ifndef MPNANNY_ENGINES_CHECK_CALIBRATION_H_
#define MPNANNY_ENGINES_CHECK_CALIBRATION_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engines/check/engine.h"

namespace mpnanny::check {

struct RulePage;

class Calibration {
 public:
  // The error names the row: one that cannot be read, of no rule, or at odds with the rule's page;
  // and a page whose severity no row speaks for.
  static Result<Calibration> Parse(std::string_view json, const std::vector<RulePage>& pages);

  // The highest severity with which findings of that form are reported; none: they are places to
  // judge, as those of a form without a row.
  std::optional<Severity> Most(std::string_view rule, std::string_view form) const;

 private:
  std::map<std::pair<std::string, std::string>, std::optional<Severity>, std::less<>> told_;
};

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_CALIBRATION_H_
