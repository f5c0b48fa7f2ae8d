#include "engines/runs/discarded.h"

namespace mpnanny::runs {
namespace {

constexpr int64_t kStepsAfter = 20;

}  // namespace

Result<bool> GradientsWereDiscarded(const Source& source, const AlertRow& alert) {
  if (alert.phase != Phase::kBackward ||
      (alert.type != AlertType::kNan && alert.type != AlertType::kInf))
    return false;
  bool loss_bad = false;
  int64_t good = 0;
  MPN_TRY(ForEachStep(source, {alert.step, alert.step + kStepsAfter}, [&](const StepRow& row) {
    loss_bad = loss_bad || (row.flags & (kLossNan | kLossInf));
    if (!(row.flags & (kSkipped | kGradNonFinite))) ++good;
    return true;
  }));
  return !loss_bad && good > 0;
}

}  // namespace mpnanny::runs
