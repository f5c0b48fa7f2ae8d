// What the readers of shadow data share: the databases of a run's ranks, and what becomes of a
// damaged one.
//
// Free functions of one call.
#ifndef MPNANNY_ENGINES_RUNS_SHADOW_PARTS_H_
#define MPNANNY_ENGINES_RUNS_SHADOW_PARTS_H_

#include <cstddef>
#include <string>

#include "engines/runs/run.h"

namespace mpnanny::runs {

// Parts of a Source: 0 is the deciding rank, i is others[i - 1].
inline size_t PartsOf(const Source& source) { return source.others.size() + 1; }
inline const Database& DatabaseOf(const Source& source, size_t part) {
  return part == 0 ? *source.database : *source.others[part - 1].database;
}
inline const Run& RunOf(const Source& source, size_t part) {
  return part == 0 ? source.run : source.others[part - 1].run;
}

// A damaged table ends its own reading only; anything else ends the call.
inline bool IsDamage(const Error& error) { return error.kind == ErrorKind::kDataCorrupt; }
inline std::string DamageNote(const Error& error) {
  return "Shadow data is missing from here on: " + error.message;
}

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_SHADOW_PARTS_H_
