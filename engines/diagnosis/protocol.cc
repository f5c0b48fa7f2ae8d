#include "engines/diagnosis/protocol.h"

#include <algorithm>
#include <limits>

#include "base/json.h"
#include "engines/runs/events.h"

namespace mpnanny::diagnosis {
namespace {

constexpr size_t kKept = 64;  // of each kind; a run that makes a new optimizer at every step

std::optional<double> Number(const Json& detail, const char* key) {
  const auto it = detail.find(key);
  if (it == detail.end()) return std::nullopt;
  if (it->is_number()) return it->get<double>();
  if (*it == "inf") return std::numeric_limits<double>::infinity();
  if (*it == "-inf") return -std::numeric_limits<double>::infinity();
  if (*it == "nan") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

int64_t CountAt(const Json& detail, const char* key) {
  const auto value = Number(detail, key);
  return value && *value >= 0 && *value < 1e15 ? static_cast<int64_t>(*value) : 0;
}

std::string Text(const Json& detail, const char* key) {
  const auto it = detail.find(key);
  return it != detail.end() && it->is_string() ? it->get<std::string>().substr(0, 80) : "";
}

bool Flag(const Json& detail, const char* key) {
  const auto it = detail.find(key);
  return it != detail.end() && it->is_boolean() && it->get<bool>();
}

void Add(const runs::EventRow& row, const Json& detail, Protocol& protocol) {
  const int64_t step = row.step.value_or(0);
  const std::string& type = row.type;
  if (type == "optimizer" && protocol.optimizers.size() < kKept) {
    protocol.optimizers.push_back({step, Text(detail, "kind"), Number(detail, "lr"),
                                   Number(detail, "eps"), CountAt(detail, "parameters"),
                                   CountAt(detail, "with_state")});
    protocol.heard = true;
  } else if (type == "scaler" && protocol.scalers.size() < kKept) {
    protocol.scalers.push_back({step, Number(detail, "scale"), Number(detail, "growth_interval")});
  } else if (type == "clip" && protocol.clips.size() < kKept) {
    protocol.clips.push_back({step, Flag(detail, "scaled"), Number(detail, "max_norm"),
                              Number(detail, "norm"), Text(detail, "norm_dtype")});
  } else if (type == "loaded" && protocol.loads.size() < kKept) {
    protocol.loads.push_back({step, Text(detail, "what"), Flag(detail, "within")});
  } else if (type == "autocast" && protocol.autocast.empty()) {
    protocol.autocast = Text(detail, "dtype");
  } else if (type == "unscale") {
    protocol.unscales = true;
  } else if (type == "direct_step" && Flag(detail, "unscaled")) {
    if (!protocol.unguarded_step) protocol.unguarded_step = step;
  } else if (type == "direct_step" && !protocol.direct_step) {
    protocol.direct_step = step;
    protocol.direct_scale = Number(detail, "scale");
  } else if (type == "update_missing" && !protocol.update_missing) {
    protocol.update_missing = step;
  } else if (type == "step_left") {
    protocol.left = std::max(protocol.left, CountAt(detail, "count"));
    protocol.first_left = CountAt(detail, "first");
  } else if (type == "gradients_replaced" && !protocol.gradients_replaced) {
    protocol.gradients_replaced = step;
  } else if (type == "exception" && !protocol.failed) {
    protocol.failed = ParseFailedCall(step, detail);
  } else if (type == "accumulation") {
    if (CountAt(detail, "backwards") <= protocol.backwards) return;
    protocol.backwards = CountAt(detail, "backwards");
    protocol.added_in = Text(detail, "dtype");
    protocol.taken_out = Flag(detail, "taken_out");
  }
}

}  // namespace

Result<Protocol> ReadProtocol(const runs::Source& source) {
  Protocol protocol;
  MPN_TRY(runs::ForEachEvent(source, [&](const runs::EventRow& row) {
    auto detail = row.detail.empty() ? Result<Json>(Json::object()) : ParseJson(row.detail);
    if (detail && detail->is_object()) Add(row, *detail, protocol);
    return true;
  }));
  return protocol;
}

}  // namespace mpnanny::diagnosis
