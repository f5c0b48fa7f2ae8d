#include "monitor/core/alert_book.h"

#include <algorithm>
#include <tuple>

#include "monitor/core/alert_types.h"
#include "monitor/core/json_text.h"

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

bool IsValueError(const AlertRow& alert) {
  return alert.severity == "ERROR" &&
         (alert.type == "NAN" || alert.type == "INF" || alert.type == "LOSS_NAN");
}

AlertBook::Outcome AlertBook::Raise(AlertRow& alert) {
  // The largest gradient of the model: one condition, whichever layer holds it just now.
  const int64_t place = alert.type == "GRAD_EXPLOSION" ? -1 : alert.layer.value_or(-1);
  const std::string key = alert.type + '|' + alert.severity + '|' + alert.phase + '|' +
                          std::to_string(place) + '|' +
                          std::to_string(alert.kind ? static_cast<int>(*alert.kind) : -1);
  const auto open = open_.find(key);
  if (open != open_.end() && alert.step - open->second.last_step <= quiet_steps_) {
    AlertRow& row = open->second;
    if (alert.step > row.last_step) ++row.repeats;
    row.last_step = alert.step;
    alert = row;
    return Outcome::kContinues;
  }
  const auto beside = std::ranges::count_if(open_, [&](const auto& entry) {
    const AlertRow& row = entry.second;
    return row.type == alert.type && row.severity == alert.severity &&
           alert.step - row.last_step <= quiet_steps_;
  });
  if (beside >= kOpenRows) return Outcome::kLeftOut;
  alert.id = NextId();
  open_[key] = alert;
  return Outcome::kNew;
}

std::optional<AlertRow> AlertBook::Explain(int64_t step, std::string_view phase,
                                           const std::string& text, const std::string& detail,
                                           int64_t layer,
                                           const std::function<bool(const AlertRow&)>& is_vague) {
  AlertRow* best = nullptr;
  const auto rank = [&](const AlertRow& row) {
    return std::tuple(row.phase != phase, row.producer != 1, row.id);
  };
  for (auto& [key, row] : open_) {
    const bool fits = row.phase == phase || (!row.layer && row.producer == 1);
    if (!fits || row.last_step != step || !IsValueError(row)) continue;
    if (best == nullptr || rank(row) < rank(*best)) best = &row;
  }
  if (best == nullptr) return std::nullopt;
  if (!best->explained) {  // later steps say the same
    best->message += text;
    best->detail = JsonObject().Members(best->detail).Members(detail).Take();
  }
  best->explained = true;
  if (!best->layer || best->producer == 0 || is_vague(*best)) {
    best->layer = layer;
    best->producer = 1;
  }
  return *best;
}

}  // namespace mpnanny
