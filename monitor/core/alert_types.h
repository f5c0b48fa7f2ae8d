// The alert types: one row each, with its severity and its bounds. The page
// monitor/alerts/<TYPE>.md documents the row; a test compares the two.
//
// Constant data; safe from any thread.
#ifndef MPNANNY_MONITOR_CORE_ALERT_TYPES_H_
#define MPNANNY_MONITOR_CORE_ALERT_TYPES_H_

#include <span>
#include <string>

#include "base/run_words.h"
#include "numerics/alert_bounds.h"

namespace mpnanny {

// An alert type's row.
struct AlertDefinition {
  AlertType type;
  Severity severity;      // the highest that it is raised with; SHADOW_*: the usual one
  std::string threshold;  // for people, made of the bounds: the page's front matter repeats it
};

// In the order of the enum.
std::span<const AlertDefinition> AlertDefinitions();

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_ALERT_TYPES_H_
