// What became non-finite in the step in progress, outside of gradients, and the alerts of it.
//
// Owns the findings. Used by the training thread alone.
#ifndef MPNANNY_MONITOR_CORE_NON_FINITE_FINDINGS_H_
#define MPNANNY_MONITOR_CORE_NON_FINITE_FINDINGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "monitor/core/alert_conditions.h"
#include "monitor/core/json_text.h"
#include "monitor/core/run_layers.h"

namespace mpnanny {

struct NonFiniteFinding {
  std::optional<int64_t> layer;
  Word<Phase> phase;
  TensorKind kind = TensorKind::kActivation;
  TensorStats stats;
  bool producer = false;
  std::string message;
  std::string detail;  // JSON, as alert.detail of the catalogue
};

class NonFiniteFindings {
 public:
  static constexpr size_t kMost = 256;  // of a step, however long it lasts

  explicit NonFiniteFindings(const RunLayers& layers) : layers_(layers) {}

  void BeginStep();
  void Add(NonFiniteFinding finding);

  bool empty() const { return findings_.empty(); }
  bool nan_found() const { return nan_found_; }
  // A module below `container` (empty: any) is known to have made one.
  bool HasProducerBelow(const std::string& container) const;
  // A module or the batch was not finite, and not only with -Inf, as a mask is.
  bool ForwardIsNonFinite() const;

  // `harmless`: the step went on as if nothing was wrong, so that -Inf alone is a mask.
  void Raise(int64_t step, bool harmless, Alerts& out) const;

 private:
  const RunLayers& layers_;
  std::vector<NonFiniteFinding> findings_;
  bool nan_found_ = false;
};

// "3 NaN and 2 +Inf of 64".
std::string CountsOf(const TensorStats& stats);

// The same as members of alert.detail: "made", "count" and "of".
void AddCounts(const TensorStats& stats, JsonObject& detail);

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_NON_FINITE_FINDINGS_H_
