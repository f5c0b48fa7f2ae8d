#include "monitor/core/run_layers.h"

#include <unordered_map>
#include <utility>

namespace mpnanny {

int64_t RunLayers::Add(LayerRow row, bool leaf) {
  if (registered_) return 0;
  Layer added;
  added.name = row.name;
  added.type = row.type;
  added.leaf = leaf;
  added.owns_parameters = leaf && row.numel.value_or(0) > 0;
  if (row.name.empty()) row.name = "(model)";  // named_modules() calls the model itself ""
  layers_.push_back(std::move(added));
  row.id = static_cast<int64_t>(layers_.size());
  const int64_t id = row.id;
  announced_.push_back(std::move(row));
  return id;
}

int64_t RunLayers::AddOperator(std::string name) {
  Layer added;
  added.name = std::move(name);
  added.type = kOperatorType;
  layers_.push_back(std::move(added));
  return static_cast<int64_t>(layers_.size());
}

std::vector<LayerRow> RunLayers::Register() {
  registered_ = true;
  std::unordered_map<std::string_view, int64_t> modules;
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (layers_[i].type != kParameterType && layers_[i].type != kBufferType)
      modules.emplace(layers_[i].name, static_cast<int64_t>(i + 1));
  }
  for (size_t i = 0; i < layers_.size(); ++i) {
    Layer& each = layers_[i];
    if (each.type != kParameterType) continue;
    ++parameters_;
    const size_t dot = each.name.rfind('.');
    const auto owner =
        modules.find(std::string_view(each.name).substr(0, dot == std::string::npos ? 0 : dot));
    each.owner = owner != modules.end() ? owner->second : static_cast<int64_t>(i + 1);
  }
  return std::exchange(announced_, {});
}

bool RunLayers::IsAnnounced(int64_t id) const {
  return id >= 1 && id <= static_cast<int64_t>(layers_.size()) && at(id).type != kOperatorType;
}

std::vector<std::string> RunLayers::UnseenLeaves() const {
  std::vector<std::string> unseen;
  for (const Layer& each : layers_) {
    if (each.leaf && each.position < 0) unseen.push_back(each.name);
  }
  return unseen;
}

}  // namespace mpnanny
