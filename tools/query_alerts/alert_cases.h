// Which knowledge cases explain an alert: those whose signature names it.
//
// A value owned by one call; borrows the library.
#ifndef MPNANNY_TOOLS_QUERY_ALERTS_ALERT_CASES_H_
#define MPNANNY_TOOLS_QUERY_ALERTS_ALERT_CASES_H_

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "engines/cases/case.h"
#include "engines/runs/alerts.h"

namespace mpnanny::query_alerts {

// Ids shown with one alert: enough to read on, few enough for a page of alerts.
inline constexpr size_t kCasesPerAlert = 3;

class AlertCases {
 public:
  explicit AlertCases(const cases::CaseLibrary& library) : library_(library) {}

  // Ids of at most kCasesPerAlert failures with a signal for this alert (type, phase, layer), the
  // greatest share of its case's weight first. `layer`: raw name, "" if the alert has none.
  const std::vector<std::string>& Of(const runs::AlertRow& alert, const std::string& layer);

 private:
  const cases::CaseLibrary& library_;
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<std::string>> known_;
};

}  // namespace mpnanny::query_alerts

#endif  // MPNANNY_TOOLS_QUERY_ALERTS_ALERT_CASES_H_
