// What shadow steps found so far in this run: one finding for each place, with the worst of what
// was seen there, and the alert that it raised.
//
// Owns the findings and their alerts; puts every change into the file at once. The front decides
// what a finding is and which belong together: it names the finding that it saw again. Lives and is
// called as the Recorder that owns it.
#ifndef MPNANNY_MONITOR_CORE_SHADOW_FINDINGS_H_
#define MPNANNY_MONITOR_CORE_SHADOW_FINDINGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "monitor/core/alert_book.h"
#include "monitor/core/rows.h"
#include "monitor/core/run_file.h"

namespace mpnanny {

class ShadowFindings {
 public:
  // Of one run. More places than this are no findings, but a run that is wrong throughout.
  static constexpr size_t kFindings = 2'048;

  // Both outlive it.
  ShadowFindings(RunFile& file, AlertBook& book) : file_(file), book_(book) {}

  // A finding that was seen at row.step. `id` 0: a new one; else one that an earlier call returned,
  // of which the last step, the repeats and, where they are worse, the figures change. Returns its
  // id; 0: left out, there are too many. row.id, last_step and repeats are of no meaning.
  int64_t See(int64_t id, ShadowFindingRow row);

  // The alerts that findings have raised since it was last asked for, each as it is now. They are
  // in the file already.
  std::vector<AlertRow> TakeNew();

 private:
  struct KnownFinding {
    ShadowFindingRow finding;
    std::optional<AlertRow> alert;
  };

  void Raise(KnownFinding& seen);

  RunFile& file_;
  AlertBook& book_;
  std::vector<KnownFinding> seen_;    // by id, from 1
  std::vector<int64_t> new_;  // ids of findings whose alerts are new
  bool left_out_reported_ = false;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_SHADOW_FINDINGS_H_
