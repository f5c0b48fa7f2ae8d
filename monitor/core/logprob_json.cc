#include "monitor/core/logprob_json.h"

#include "monitor/core/json_text.h"

namespace mpnanny {
namespace {

std::string Short(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", value);
  return text;
}

}  // namespace

std::string LogprobJson(const LogprobMismatch& found) {
  std::string worst = "[";
  for (const MismatchToken& token : found.worst) {
    if (worst.size() > 1) worst += ',';
    worst += '[' + std::to_string(token.row) + ',' + std::to_string(token.place) + ',' +
             std::to_string(token.token) + ',' + Short(token.trainer) + ',' + Short(token.rollout) +
             ']';
  }
  return JsonObject()
      .Int("tokens", found.tokens)
      .Int("bad_trainer", found.bad_trainer)
      .Int("bad_rollout", found.bad_rollout)
      .Number("mean", found.mean)
      .Number("mean_abs", found.mean_abs)
      .Number("rms", found.rms)
      .Number("k3", found.k3)
      .Number("median", found.median)
      .Number("p99", found.p99)
      .Number("p999", found.p999)
      .Number("largest", found.largest)
      .Number("beyond", found.beyond)
      .Number("equal", found.equal)
      .Number("positive", found.positive)
      .Number("trainer", found.trainer)
      .Number("rollout", found.rollout)
      .Number("exposure", found.exposure)
      .Number("rms_before", found.rms_before)
      .Number("rms_after", found.rms_after)
      .Int("trainer_grid", found.trainer_grid)
      .Int("rollout_grid", found.rollout_grid)
      .Number("temperature", found.temperature)
      .Number("temperature_rest", found.temperature_rest)
      .Int("rows", found.rows)
      .Number("row_least", found.row_least)
      .Number("row_median", found.row_median)
      .Number("row_largest", found.row_largest)
      .Json("worst", worst + ']')
      .Take();
}

std::vector<std::string> LogprobGroupsJson(const LogprobMismatch& found) {
  std::vector<std::string> texts;
  for (int by = 0; by < kMismatchGroupings; ++by) {
    std::string groups;
    for (const MismatchGroup& group : found.groups) {
      if (static_cast<int>(group.by) != by) continue;
      if (!groups.empty()) groups += ',';
      groups += '[' + std::to_string(group.from) + ',' + std::to_string(group.tokens) + ',' +
                Short(group.mean) + ',' + Short(group.rms) + ',' + Short(group.median) + ',' +
                Short(group.largest) + ',' + Short(group.exposure) + ']';
    }
    if (groups.empty()) continue;
    texts.push_back(JsonObject().Int("by", by).Json("groups", '[' + groups + ']').Take());
  }
  return texts;
}

}  // namespace mpnanny
