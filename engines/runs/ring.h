// The flight recorder beside a database, read: the last steps and samples that a killed process
// could not flush.
//
// The file may be written at this moment, cut, stale or hostile; a slot counts only if its checksum
// fits. Reading never fails: what was wrong stands in `notes`. Plain values.
#ifndef MPNANNY_ENGINES_RUNS_RING_H_
#define MPNANNY_ENGINES_RUNS_RING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/flight_ring.h"

namespace mpnanny::runs {

struct Ring {
  bool present = false;  // a ring file with a sound header was read
  int64_t run_id = 0;
  double run_started_at = 0;  // Unix seconds
  int64_t pid = 0;
  uint8_t end = kRingOpen;          // a RingEnd
  std::vector<RingStep> steps;      // by step, each once (the newest slot wins)
  std::vector<RingSample> samples;  // by (step, layer, kind, slot), each once
  std::vector<std::string> notes;   // what could not be read, for people
};

Ring ReadRing(const std::string& database_path);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_RING_H_
