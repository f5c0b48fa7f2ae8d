#include "monitor/core/alert_book.h"

#include "monitor/core/alert_types.h"

namespace mpnanny {

AlertRow MakeAlert(std::string_view type, int64_t step, std::string_view phase,
                   std::string message) {
  AlertRow row;
  row.type = type;
  row.severity = FindAlertType(type).severity;
  row.step = row.last_step = step;
  row.phase = phase;
  row.message = std::move(message);
  return row;
}

bool AlertBook::Raise(AlertRow& alert) {
  const std::string key = alert.type + '|' + alert.severity + '|' + alert.phase + '|' +
                          std::to_string(alert.layer.value_or(-1)) + '|' +
                          std::to_string(alert.kind ? static_cast<int>(*alert.kind) : -1);
  const auto open = open_.find(key);
  if (open != open_.end() && alert.step - open->second.last_step <= quiet_steps_) {
    AlertRow& row = open->second;
    if (alert.step > row.last_step) ++row.repeats;
    row.last_step = alert.step;
    alert = row;
    return false;
  }
  alert.id = ++last_id_;
  open_[key] = alert;
  return true;
}

}  // namespace mpnanny
