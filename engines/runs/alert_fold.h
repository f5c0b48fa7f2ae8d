// Alerts of several ranks that tell the same, as one.
//
// Free function without state.
#ifndef MPNANNY_ENGINES_RUNS_ALERT_FOLD_H_
#define MPNANNY_ENGINES_RUNS_ALERT_FOLD_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "base/result.h"
#include "engines/runs/alerts.h"

namespace mpnanny::runs {

inline constexpr size_t kMaxFolded = 20'000;  // of one step; more are told one by one
inline constexpr int kRankShift = 40;         // alert ids of all ranks stand apart

// The alerts of one step, those that tell the same folded into one: the deciding rank's words, else
// the lowest rank's. Rows come part by part, the deciding one first; one may already be of several
// ranks.
std::vector<AlertRow> FoldAlerts(std::vector<AlertRow> rows);

// ForEachAlert() of a training whose ranks lie in one database (parts.h): most is folded where they
// lie.
Result<void> ForEachOfTraining(const Source& source, const AlertFilter& filter,
                               const std::function<bool(const AlertRow&)>& visit);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_ALERT_FOLD_H_
