// [tool.mpnanny] of a pyproject.toml: which rules a project wants, where, and how severe.
//
//   [tool.mpnanny]
//   select = ["clip-before-unscale"]           only these rules
//   extend-select = ["half-reduction"]         these beside them
//   ignore = ["static-loss-scale"]             not these
//   severity = { adam-eps-half = "warning" }   error, warning, info or off
//   exclude = ["legacy/", "*_old.py"]          not these files, in patterns as of a .gitignore
//   per-file-ignores = { "examples/**" = ["*"] }
//   min-severity = "warning"                   what is shown
//   fail-on = "error"                          what makes the command exit with 1
//
// A mistake in it is told in a note and leaves the rest of it in force. Free functions; nothing is
// kept.
#ifndef MPNANNY_ENGINES_CHECK_INPUTS_PYPROJECT_H_
#define MPNANNY_ENGINES_CHECK_INPUTS_PYPROJECT_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"
#include "engines/check/engine.h"
#include "engines/check/inputs/ignore_list.h"

namespace mpnanny::check {

struct Pyproject {
  std::string folder;  // that its patterns start from
  std::shared_ptr<const ProjectPolicy> policy;
  IgnoreList exclude;
  std::vector<std::pair<IgnoreList, std::vector<std::string>>> per_file;
  std::optional<Severity> min_severity;
  std::optional<Severity> fail_on;
  std::vector<std::string> notes;

  // The rules that stay silent in `file` (an absolute path below the folder).
  std::vector<std::string> IgnoredIn(const std::string& file) const;
  // `path` as the patterns see it; empty for what does not lie below the folder.
  std::string_view Below(std::string_view path) const;
};

// nullopt: the text has no [tool.mpnanny]. `shown` is the file's name in notes. `rule_ids`: all
// there are.
std::optional<Pyproject> ParsePyproject(std::string_view text, const std::string& shown,
                                        const std::vector<std::string>& rule_ids);

// The nearest pyproject.toml with a [tool.mpnanny] in `folder` (canonical) or above it, as far as
// the roots reach.
std::optional<Pyproject> FindPyproject(const std::string& folder, const AllowedRoots& roots,
                                       const std::vector<std::string>& rule_ids);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_INPUTS_PYPROJECT_H_
