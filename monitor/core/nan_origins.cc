#include "monitor/core/nan_origins.h"

#include "monitor/core/json_text.h"

namespace mpnanny {

int64_t NanOrigins::See(NanOrigin origin) {
  auto known = operators_.find(origin.name);
  if (known == operators_.end()) {
    LayerRow row;
    row.name = origin.name;
    row.type = kOperatorType;
    row.source = origin.source;
    if (origin.module && *origin.module > 0 &&
        *origin.module <= static_cast<int64_t>(layers_.size())) {
      const int64_t position = layers_.at(*origin.module).position;
      if (position >= 0) row.position = position;
    }
    row.id = layers_.AddOperator(row.name);
    known = operators_.emplace(origin.name, std::move(row)).first;
  }
  const int64_t id = known->second.id;
  if (!pending_) pending_ = {schedule_.step(), id, std::move(origin)};
  return id;
}

void NanOrigins::EndStep(bool broken, std::vector<AlertRow>& fresh) {
  if (!pending_) return;
  const int64_t step = schedule_.step();
  if (!broken) {
    // What an optimizer writes is noticed when the next forward pass uses it.
    if (pending_->origin.phase != Phase::kOptimizer || pending_->step < step) pending_.reset();
    return;
  }
  const Pending seen = *std::exchange(pending_, std::nullopt);
  const NanOrigin& origin = seen.origin;
  LayerRow& row = operators_.at(origin.name);
  if (!row.type.empty()) file_.Put(row);
  row.type.clear();  // it is in the file now
  JsonObject found;
  found.Int("traced_step", seen.step);
  if (!origin.operators.empty()) found.Json("operators", origin.operators);
  const std::string detail = found.Take();
  const std::string text = " Traced at step " + std::to_string(seen.step) + ": " + origin.message;
  // The code of a module between its children is less than a line of it.
  const auto is_container = [&](const AlertRow& alert) {
    return alert.kind == TensorKind::kActivation && alert.layer && !layers_.at(*alert.layer).leaf;
  };
  if (auto explained = book_.Explain(step, origin.phase, text, detail, seen.layer, is_container)) {
    if (!explained->message.ends_with(text)) return;
    explained_ = std::string(NameOf(explained->type)) + " of step " +
                 std::to_string(explained->step) + ":" + text;
    file_.Put(AlertUpdate{*std::move(explained)});
    return;
  }
  AlertRow alert = MakeAlert(origin.nan ? AlertType::kNan : AlertType::kInf, seen.step,
                             origin.phase, origin.message);
  alert.layer = seen.layer;
  alert.kind =
      origin.phase == Phase::kBackward ? TensorKind::kActivationGradient : TensorKind::kActivation;
  alert.value = static_cast<double>(origin.count);
  alert.threshold = 0;
  alert.producer = 1;
  alert.detail = detail;
  if (book_.Raise(alert) != AlertBook::Outcome::kNew) return;
  file_.Put(alert);
  fresh.push_back(std::move(alert));
}

}  // namespace mpnanny
