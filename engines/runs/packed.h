// What `mpnanny pack` leaves in a database that was no database's before: how the run stood when it
// was packed, and what only its flight recorder knew. Both are events of the run.
//
// Free functions; plain values.
#ifndef MPNANNY_ENGINES_RUNS_PACKED_H_
#define MPNANNY_ENGINES_RUNS_PACKED_H_

#include <optional>
#include <string>

#include "engines/runs/run.h"

namespace mpnanny::runs {

inline constexpr char kPackedEvent[] = "packed";         // one a run, without a step
inline constexpr char kRingEvent[] = "flight_recorder";  // one a step of the recorder

// The detail of a run's kPackedEvent: status, and whether a recorder was merged.
std::string PackedDetail(const Source& source);
// The detail of a kRingEvent; "" for a step of which the table of steps tells everything.
std::string RingStepDetail(const RingStep& slot);

struct Packed {
  Status status = Status::kKilled;
  bool flight_recorder = false;
};
// nullopt: the run was recorded right here. Two seeks.
std::optional<Packed> ReadPacked(const Database& database, int64_t run_id);

// The recorder of a packed run as far as it was kept; not present if there was none.
Ring ReadPackedRing(const Database& database, const Run& run);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_PACKED_H_
