// The Recorder's view of what a trace of operators finds: which operator made the value that an
// alert is about.
#include <string>
#include <utility>

#include "monitor/core/recorder.h"

namespace mpnanny {

int64_t Recorder::Born(OperatorBirth birth) {
  Register();
  auto known = operators_.find(birth.name);
  if (known == operators_.end()) {
    LayerRow row;
    row.id = static_cast<int64_t>(layers_.size()) + 1;
    row.name = birth.name;
    row.type = kOperatorType;
    row.source = birth.source;
    if (birth.module && *birth.module > 0 && *birth.module < row.id) {
      const int64_t position = layer(*birth.module).position;
      if (position >= 0) row.position = position;
    }
    Layer added;
    added.name = row.name;
    added.type = row.type;
    layers_.push_back(std::move(added));
    known = operators_.emplace(birth.name, std::move(row)).first;
  }
  const int64_t id = known->second.id;
  if (!birth_) birth_ = {step_, id, std::move(birth)};
  return id;
}

void Recorder::TellBirth(bool broken, std::vector<AlertRow>& fresh) {
  if (!birth_) return;
  if (!broken) {
    // What an optimizer writes is noticed when the next forward pass uses it.
    if (birth_->birth.phase != "optimizer" || birth_->step < step_) birth_.reset();
    return;
  }
  const PendingBirth told = *std::exchange(birth_, std::nullopt);
  LayerRow& row = operators_.at(told.birth.name);
  if (!row.type.empty()) writer_.Put(row);
  row.type.clear();  // it is in the file now
  const std::string text =
      " Traced at step " + std::to_string(told.step) + ": " + told.birth.message;
  // The code of a module between its children is less than a line of it.
  const auto is_container = [&](const AlertRow& alert) {
    return alert.kind == TensorKind::kActivation && alert.layer && !layer(*alert.layer).leaf;
  };
  if (auto explained = book_.Explain(step_, told.birth.phase, text, told.layer, is_container)) {
    if (!explained->message.ends_with(text)) return;
    explained_ = explained->type + " of step " + std::to_string(explained->step) + ":" + text;
    writer_.Put(AlertUpdate{*std::move(explained)});
    return;
  }
  AlertRow alert =
      MakeAlert(told.birth.nan ? "NAN" : "INF", told.step, told.birth.phase, told.birth.message);
  alert.layer = told.layer;
  alert.kind =
      told.birth.phase == "backward" ? TensorKind::kActivationGradient : TensorKind::kActivation;
  alert.value = static_cast<double>(told.birth.count);
  alert.threshold = 0;
  alert.producer = 1;
  if (book_.Raise(alert) != AlertBook::Outcome::kNew) return;
  writer_.Put(alert);
  fresh.push_back(std::move(alert));
}

}  // namespace mpnanny
