// What a shadow step found, of the alert that it raised.
//
// Free function of one call.
#ifndef MPNANNY_TOOLS_QUERY_ALERTS_ALERT_FINDING_H_
#define MPNANNY_TOOLS_QUERY_ALERTS_ALERT_FINDING_H_

#include <optional>

#include "base/result.h"
#include "engines/runs/alerts.h"
#include "engines/runs/shadow.h"

namespace mpnanny::query_alerts {

// Of an alert of a type SHADOW_…: its finding, or where that row is missing what the alert itself
// reports of it; nullopt for other alerts, and where nothing is reported.
Result<std::optional<runs::ShadowFinding>> FindingOf(const runs::Source& source,
                                                     const runs::AlertRow& alert);

}  // namespace mpnanny::query_alerts

#endif  // MPNANNY_TOOLS_QUERY_ALERTS_ALERT_FINDING_H_
