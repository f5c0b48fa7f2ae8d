// Keeps a database from growing past its limit: old samples are thinned ten to one.
//
// Of the sampled steps of a run, counted from its first, every tenth stays whole; of the others
// only the rows that are an extreme of their tensor among a hundred samples stay (largest and
// smallest absmax, first that is not finite), and everything within 200 steps of an alert. The
// newest samples of the run that is being written are left alone. Where that is not enough, the
// oldest are thinned again, to one in a hundred, and so on. Step rows, alerts and events stay.
// Pages that become free are used again, so the file stops growing; it does not shrink.
//
// Which rows stay follows from the rows alone, so a later process that goes over the same samples
// again takes next to nothing away. Works in slices on the writer's connection, on the
// writer's thread. Readers are not held up: the file is in WAL mode.
#ifndef MPNANNY_MONITOR_CORE_THINNER_H_
#define MPNANNY_MONITOR_CORE_THINNER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/sample_thinning.h"
#include "monitor/core/database.h"

namespace mpnanny {

class Thinner {
 public:
  static constexpr int64_t kAlertSteps = kThinningAlertSteps;
  static constexpr int64_t kWindow = ThinningWindow(1);
  static constexpr int kLevels = kThinningLevels;

  // `database` outlives it.
  Thinner(RunDatabase& database, int64_t max_bytes) : database_(database), max_bytes_(max_bytes) {}

  // Looks at the size, after a batch. Starts when it is past the limit.
  Result<void> Look();
  bool active() const { return active_; }
  // More is written than thinning can make room for, or nothing is left to thin: new samples do not
  // go into the file for now.
  bool full() const { return full_; }
  // The size is so far past the limit that slices should follow each other without a pause.
  bool urgent() const { return urgent_; }

  // Works for about `seconds`.
  Result<void> Slice(double seconds);

 private:
  using Series = std::tuple<int64_t, int64_t, int64_t>;  // layer, kind, slot
  struct Frontier {                                      // how far a run is thinned at a level
    int64_t ordinal = 0, step = -1;
  };
  struct Run {
    int64_t id = 0;
    int64_t samples = 0;    // sampled steps that may be thinned, counted from the first
    int64_t last_step = 0;  // beyond it nothing is thinned
  };
  enum class Phase { kWindow, kScan, kDelete };

  Result<int64_t> UsedBytes();
  Result<void> ListRuns();
  Result<bool> NextWindow();  // false: nothing is left at any level
  Result<bool> FillWindow(const Run& run);
  Result<void> ScanStep(int64_t step);
  Result<void> DeleteStep(int64_t step);
  Result<void> EndWindow();
  Result<void> EndPass();

  RunDatabase& database_;
  const int64_t max_bytes_;
  bool active_ = false, full_ = false, urgent_ = false;
  double idle_until_ = 0;  // nothing was left to thin; SteadySeconds()

  // of the pass: until the size is below the limit again
  std::vector<Run> runs_;
  int level_ = 1;
  size_t run_ = 0;  // in runs_
  int64_t rows_deleted_ = 0;
  int64_t first_step_ = -1, last_step_ = -1;
  std::map<std::pair<int64_t, int>, Frontier> frontiers_;  // by run and level; kept between passes

  // of the window
  Phase phase_ = Phase::kWindow;
  Frontier next_;               // the frontier when the window is done
  std::vector<int64_t> steps_;  // all that it has
  std::set<int64_t> kept_;      // of them those that stay whole
  size_t at_ = 0;               // in steps_
  std::map<Series, SampleExtremes> extremes_;
  std::set<int64_t> partly_;  // steps that hold an extreme
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_THINNER_H_
