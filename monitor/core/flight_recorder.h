// Writes the flight ring (base/flight_ring.h) and reads back what a killed run left in it.
//
// Owns the mapped file and its lock. Used by the training thread alone; a store is a few hundred
// nanoseconds and never a system call, so it can happen in every step.
#ifndef MPNANNY_MONITOR_CORE_FLIGHT_RECORDER_H_
#define MPNANNY_MONITOR_CORE_FLIGHT_RECORDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/flight_ring.h"
#include "base/os_mapped_file.h"
#include "base/result.h"
#include "monitor/core/rows.h"

namespace mpnanny {

// What an earlier run left: in order of writing.
struct RingRemains {
  int64_t run_id = 0;
  double run_started_at = 0;
  std::vector<RingStep> steps;
  std::vector<RingSample> samples;
  std::string end_reason;  // of a run that ended without its database; empty: it was killed
};

class FlightRecorder {
 public:
  // Opens the ring of `database`. Unavailable: another live run owns it, or the place cannot be
  // written.
  static Result<FlightRecorder> Open(const std::string& database);

  // The slots of an earlier run that its database may lack; empty where that holds everything, or
  // in a new file. Call before Start().
  RingRemains Remains() const;

  // Clears the ring and makes it this run's. `layer_offset` is added to the layers' ids.
  void Start(int64_t run_id, double started_at, int64_t layer_offset);

  // Stores a step. The same step again replaces its slot, as long as no other step came between.
  void Write(const StepRow& row);
  void Write(const SampleRow& row);

  // Says that the database holds everything.
  void MarkClosed();
  // Says that the run ended, but that the database does not hold everything.
  void MarkUnwritten(const Word<EndReason>& end_reason);

 private:
  explicit FlightRecorder(MappedFile file) : file_(std::move(file)) {}
  RingHeader* header() const;
  RingStep* steps() const;
  RingSample* samples() const;

  mutable MappedFile file_;
  uint64_t step_sequence_ = 0;
  uint64_t sample_sequence_ = 0;
  int64_t last_step_ = 0;
  int64_t layer_offset_ = 0;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_FLIGHT_RECORDER_H_
