// What git says of one repository's files against a revision.
//
// Plain functions over child processes; nothing is kept. git runs nothing that the repository's own
// configuration names.
#ifndef MPNANNY_ENGINES_CHECK_INPUTS_GIT_DIFF_H_
#define MPNANNY_ENGINES_CHECK_INPUTS_GIT_DIFF_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace mpnanny::check {

struct FileDiff {
  std::string old_path;                     // in the revision; differs after a renaming
  bool is_new = false;                      // not there in the revision
  std::vector<std::pair<int, int>> ranges;  // added or changed lines, first and last, both in
};

// The output of `git diff --unified=0`, by the files' paths now.
std::map<std::string, FileDiff> ParseDiff(std::string_view text);

struct RepositoryDiff {
  std::string commit;                     // the revision's full name
  std::set<std::string> tracked;          // the files among those asked about that git knows
  std::map<std::string, FileDiff> files;  // those that differ
};

// `top` holds .git; `files` are paths below it that are of interest.
Result<RepositoryDiff> DiffRepository(const std::string& top, const std::string& revision,
                                      const std::vector<std::string>& files);

// A file's content in a commit; nullopt if it is not there or too large.
std::optional<std::string> ReadBlob(const std::string& top, const std::string& commit,
                                    const std::string& path);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_INPUTS_GIT_DIFF_H_
