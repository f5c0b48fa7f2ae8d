// SQLite files of other programs that keep the numbers of trainings in them: trackio's and
// msProbe's.
//
// Free functions; a database belongs to one call on one thread.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_FOREIGN_DATABASE_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_FOREIGN_DATABASE_H_

#include <string>
#include <string_view>

#include "engines/runs/database.h"
#include "engines/runs/import/format.h"

namespace mpnanny::imports {

// No file is known by its first bytes alone: its tables tell.
inline bool NeverFits(const FileHead&) { return false; }

// Text that a program wrote as text or as bytes; "" for anything else.
inline std::string TextOrBytes(const runs::Statement& row, int column) {
  if (auto text = row.Text(column)) return *std::move(text);
  return row.Blob(column).value_or("");
}

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_FOREIGN_DATABASE_H_
