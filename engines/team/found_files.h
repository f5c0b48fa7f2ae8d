// Which files, and which of their runs, somebody means who names files, folders, patterns or runs
// to be shipped.
//
// Free functions and plain values.
#ifndef MPNANNY_ENGINES_TEAM_FOUND_FILES_H_
#define MPNANNY_ENGINES_TEAM_FOUND_FILES_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"

namespace mpnanny::team {

struct WantedFiles {
  // Canonical paths; of each the runs that are meant, none for all.
  std::map<std::string, std::set<int64_t>> files;
  std::vector<std::string> missing;  // what named nothing
};

// Each word is a file (all ranks that lie beside it are meant as well, and of "metrics.db" those of
// metrics.rank0.db …), "file#id" (that run, all ranks of it), a folder (every database below it) or
// a pattern with '*' and '?' in its last part.
Result<WantedFiles> FindWanted(const std::vector<std::string>& words, const CancelToken& cancel);

}  // namespace mpnanny::team

#endif  // MPNANNY_ENGINES_TEAM_FOUND_FILES_H_
