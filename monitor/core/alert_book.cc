#include "monitor/core/alert_book.h"

#include <algorithm>
#include <tuple>

#include "monitor/core/alert_types.h"
#include "monitor/core/json_text.h"

namespace mpnanny {

AlertRow MakeAlert(AlertType type, int64_t step, const Word<Phase>& phase, std::string message) {
  AlertRow row;
  row.type = type;
  row.severity = AlertDefinitions()[static_cast<size_t>(type)].severity;
  row.step = row.last_step = step;
  row.phase = phase;
  row.message = std::move(message);
  return row;
}

bool IsValueError(const AlertRow& alert) {
  return alert.severity == Severity::kError &&
         (alert.type == AlertType::kNan || alert.type == AlertType::kInf ||
          alert.type == AlertType::kLossNan);
}

AlertBook::Outcome AlertBook::Raise(AlertRow& alert) {
  // The largest gradient of the model: one condition, whichever layer holds it just now.
  const int64_t place = alert.type == AlertType::kGradExplosion ? -1 : alert.layer.value_or(-1);
  const Key key(alert.type, alert.severity, alert.phase.value(), place, alert.kind);
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

std::optional<AlertRow> AlertBook::Explain(int64_t step, const Word<Phase>& phase,
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
