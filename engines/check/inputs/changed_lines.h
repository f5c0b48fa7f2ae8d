// Which lines of the checked files were added or changed since a git revision.
//
// git is run as a child process, with a deadline, and told to run nothing itself: no filters, no
// external diffs, no monitor of the file system, no fetching, whatever the repository's own
// configuration asks for. Immutable after Since(); safe to ask from any thread.
#ifndef MPNANNY_ENGINES_CHECK_INPUTS_CHANGED_LINES_H_
#define MPNANNY_ENGINES_CHECK_INPUTS_CHANGED_LINES_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "engines/check/engine.h"

namespace mpnanny::check {

// The lines of `after` that are not in `before`, in an alignment that keeps as many as it can.
std::vector<bool> NewLines(const std::vector<std::string_view>& before,
                           const std::vector<std::string_view>& after);

class ChangedLines {
 public:
  // Every source must have its `file`. What git does not know yet is new as a whole. Fails with
  // what to do where git is missing, a file lies in no repository, the repository reads files
  // outside the roots, or the revision is unknown.
  static Result<ChangedLines> Since(const std::string& revision, const std::vector<Source>& sources,
                                    const AllowedRoots& roots);

  // `path` as findings carry it ("nb.ipynb:cell 3").
  bool Touches(std::string_view path, int line, int end_line) const;

 private:
  struct Lines {
    bool all = false;
    std::vector<std::pair<int, int>> ranges = {};  // first and last, both in; in no order
  };
  // `before`: a notebook's text in the revision, or null.
  void Add(const Source& source, Lines lines, const std::string* before);

  std::map<std::string, Lines, std::less<>> by_path_;
};

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_INPUTS_CHANGED_LINES_H_
