#include "engines/diagnosis/facts/loop_calls.h"

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

// Lines of the program, as they were recorded.
std::vector<std::string> Lines(const Json& detail) {
  constexpr size_t kMostLines = 8, kMostBytes = 400;
  std::vector<std::string> lines;
  const auto it = detail.find("called_from");
  if (it == detail.end() || !it->is_array()) return lines;
  for (const Json& line : *it) {
    if (line.is_string() && lines.size() < kMostLines)
      lines.push_back(line.get<std::string>().substr(0, kMostBytes));
  }
  return lines;
}

bool Flag(const Json& detail, const char* key) {
  const auto it = detail.find(key);
  return it != detail.end() && it->is_boolean() && it->get<bool>();
}

void Add(const runs::EventRow& row, const Json& detail, LoopCalls& loop) {
  const int64_t step = row.step.value_or(0);
  const std::string& type = row.type;
  if (type == "optimizer" && loop.optimizers.size() < kKept) {
    loop.optimizers.push_back({step, Text(detail, "kind"), Number(detail, "lr"),
                               Number(detail, "eps"), CountAt(detail, "parameters"),
                               CountAt(detail, "with_state")});
    loop.heard = true;
  } else if (type == "scaler" && loop.scalers.size() < kKept) {
    loop.scalers.push_back({step, Number(detail, "scale"), Number(detail, "growth_interval")});
  } else if (type == "clip" && loop.clips.size() < kKept) {
    loop.clips.push_back({step, Flag(detail, "scaled"), Number(detail, "max_norm"),
                          Number(detail, "norm"), Text(detail, "norm_dtype"), Lines(detail)});
  } else if (type == "loaded" && loop.loads.size() < kKept) {
    loop.loads.push_back({step, Text(detail, "what"), Flag(detail, "within")});
  } else if (type == "phase" && loop.phases.size() < kKept) {
    loop.phases.push_back({step, CountAt(detail, "loads")});
  } else if (type == "autocast" && loop.autocast.empty()) {
    loop.autocast = Text(detail, "dtype");
  } else if (type == "unscale") {
    loop.unscales = true;
  } else if (type == "direct_step" && Flag(detail, "unscaled")) {
    if (loop.unguarded_step) return;
    loop.unguarded_step = step;
    loop.unguarded_lines = Lines(detail);
  } else if (type == "direct_step" && !loop.direct_step) {
    loop.direct_step = step;
    loop.direct_scale = Number(detail, "scale");
    loop.direct_lines = Lines(detail);
  } else if (type == "update_missing" && !loop.update_missing) {
    loop.update_missing = step;
  } else if (type == "step_left") {
    loop.left = std::max(loop.left, CountAt(detail, "count"));
    loop.first_left = CountAt(detail, "first");
  } else if (type == "gradients_replaced" && !loop.gradients_replaced) {
    loop.gradients_replaced = step;
  } else if (type == "exception" && !loop.failed) {
    loop.failed = ParseFailedCall(step, detail);
  } else if (type == "accumulation") {
    loop.backwards = std::max(loop.backwards, CountAt(detail, "backwards"));
  }
}

}  // namespace

bool BeginsPhase(const LoopCalls& loop, int64_t step) {
  return std::any_of(loop.phases.begin(), loop.phases.end(), [&](const PhaseSeen& phase) {
    return phase.step == step && phase.loads == 0;
  });
}

Result<LoopCalls> ReadLoopCalls(const runs::Source& source) {
  LoopCalls loop;
  MPN_TRY(runs::ForEachEvent(source, [&](const runs::EventRow& row) {
    auto detail = row.detail.empty() ? Result<Json>(Json::object()) : ParseJson(row.detail);
    if (detail && detail->is_object()) Add(row, *detail, loop);
    return true;
  }));
  return loop;
}

}  // namespace mpnanny::diagnosis
