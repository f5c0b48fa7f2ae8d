// How many alerts of each type fit a filter, counted on the index alone: a run may have a million.
//
// Plain values and free functions of one call.
#ifndef MPNANNY_TOOLS_QUERY_ALERTS_ALERT_COUNTS_H_
#define MPNANNY_TOOLS_QUERY_ALERTS_ALERT_COUNTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "base/result.h"
#include "engines/runs/alerts.h"

namespace mpnanny::query_alerts {

// A page ends after one alert: "step.alert_id".
struct Cursor {
  int64_t step = 0, alert_id = 0;
};

struct Group {
  int64_t count = 0, first_step = 0;
};

struct AlertCounts {
  std::map<std::tuple<int, std::string, std::string>, Group> groups;  // rank, severity, type
  int64_t total = 0;
  int64_t before = 0;  // up to the cursor, it included
};

// True if CountAlerts() can answer: one rank, and no choice of layers, which no index knows.
bool CanCount(const runs::Source& source, const runs::AlertFilter& filter);
Result<AlertCounts> CountAlerts(const runs::Source& source, const runs::AlertFilter& filter,
                                const std::optional<Cursor>& after);

}  // namespace mpnanny::query_alerts

#endif  // MPNANNY_TOOLS_QUERY_ALERTS_ALERT_COUNTS_H_
