// The parts of a Source: what is merged over a run's ranks is read from each of them, or, where all
// lie in one database, by one question with the parts' order in it.
//
// Free functions of one call.
#ifndef MPNANNY_ENGINES_RUNS_PARTS_H_
#define MPNANNY_ENGINES_RUNS_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
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

// All ranks are to be merged and lie in one database, whose `run_id` is the rank: a thousand
// questions are one.
inline bool LiesInOne(const Source& source) {
  return !source.others.empty() && source.database->holds_training();
}
// Of such a Source, the part of a rank; `ORDER BY run_id<>?1, run_id` with the deciding rank is the
// order of the parts.
class PartsByRank {
 public:
  explicit PartsByRank(const Source& source) {
    for (size_t part = 0; part < PartsOf(source); ++part) parts_[RunOf(source, part).rank] = part;
  }
  size_t Of(int64_t rank) const {
    const auto found = parts_.find(rank);
    return found == parts_.end() ? 0 : found->second;
  }

 private:
  std::map<int64_t, size_t> parts_;
};

// A damaged table ends its own reading only; anything else ends the call.
inline bool IsDamage(const Error& error) { return error.kind == ErrorKind::kDataCorrupt; }
inline std::string DamageNote(const Error& error) {
  return "Shadow data is missing from here on: " + error.message;
}

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_PARTS_H_
