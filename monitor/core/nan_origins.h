// Where non-finite values come from: the operators that the trace of dense steps finds, and the
// alerts that they explain.
//
// Owns the operators' rows, which reach the file when they are reported. Used by the training
// thread alone; what it refers to outlives it.
#ifndef MPNANNY_MONITOR_CORE_NAN_ORIGINS_H_
#define MPNANNY_MONITOR_CORE_NAN_ORIGINS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "monitor/core/alert_book.h"
#include "monitor/core/run_file.h"
#include "monitor/core/run_layers.h"
#include "monitor/core/sample_schedule.h"

namespace mpnanny {

// An operator that was seen to make a non-finite value although its inputs were finite.
struct NanOrigin {
  Word<Phase> phase;
  std::string name, source;       // of its row in `layer`; source: file:line
  std::optional<int64_t> module;  // the watched module that ran it
  bool nan = false;               // else infinite
  int64_t count = 0;              // of its elements that are not finite
  std::string message;
  std::string operators;  // JSON array: it and those behind it, as alert.detail of the catalogue
};

class NanOrigins {
 public:
  NanOrigins(RunFile& file, RunLayers& layers, const SampleSchedule& schedule, AlertBook& book)
      : file_(file), layers_(layers), schedule_(schedule), book_(book) {}

  // Takes an origin of this step. The first of a step counts, each operator once a run. Returns the
  // id of the operator's row.
  int64_t See(NanOrigin origin);

  // Ends a step. `broken`: it has an ERROR about a non-finite value. Then the origin is reported:
  // added to that alert, or as one of its own, added to `fresh`, where none fits. An optimizer's
  // waits a step longer, until the weights that it wrote are used.
  void EndStep(bool broken, std::vector<AlertRow>& fresh);

  // What has been added to an alert since it was last asked for, in words; empty: nothing.
  std::string TakeExplained() { return std::exchange(explained_, {}); }

 private:
  struct Pending {
    int64_t step = 0, layer = 0;
    NanOrigin origin;
  };

  RunFile& file_;
  RunLayers& layers_;
  const SampleSchedule& schedule_;
  AlertBook& book_;
  std::unordered_map<std::string, LayerRow> operators_;  // by name
  std::optional<Pending> pending_;
  std::string explained_;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_NAN_ORIGINS_H_
