// What an export reads: of every run that is named each rank, one after the other.
//
// Free functions; a Part belongs to one call on one thread.
#ifndef MPNANNY_ENGINES_EXPORT_PARTS_H_
#define MPNANNY_ENGINES_EXPORT_PARTS_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/files.h"
#include "base/result.h"
#include "engines/runs/database.h"

namespace mpnanny::exports {

struct Part {
  std::string run;   // the handle that answers show; of all ranks the same
  std::string path;  // of its database
  int64_t run_id = 0;
  int64_t rank = 0;
  // Open from the first table to the last, so that all come from one state of the file; null where
  // there are too many: each table then opens it anew.
  std::shared_ptr<runs::Database> database;
};

struct Parts {
  std::vector<Part> parts;  // runs as they are named, their ranks ascending; each once
  std::set<std::string> runs;
  std::vector<std::string> notes;  // what limits the reading
};

// `names`: handles, databases (their newest run), logs of other programs, and folders, which here
// mean every run below. A run that is named and cannot be read is an error, one of a folder or
// another rank a note.
Result<Parts> FindParts(const std::vector<std::string>& names, const AllowedRoots& roots,
                        const CancelToken& cancel);

}  // namespace mpnanny::exports

#endif  // MPNANNY_ENGINES_EXPORT_PARTS_H_
