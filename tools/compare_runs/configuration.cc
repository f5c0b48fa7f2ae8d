#include "tools/compare_runs/configuration.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>

#include "base/json.h"
#include "base/text.h"
#include "tools/runs/show.h"

namespace mpnanny::compare_runs {
namespace {

constexpr size_t kValueBytes = 120;
constexpr size_t kMostSettings = 500;
constexpr const char* kUnknown = "not recorded";

// Environment keys in the order of what they do to the numbers; others follow by name.
constexpr std::array<std::string_view, 13> kOrder = {
    "devices", "torch", "cuda",          "hip", "cudnn",  "tf32",  "float32",
    "fp16",    "bf16",  "deterministic", "git", "script", "python"};
constexpr std::array<std::string_view, 3> kNoSettings = {"pid", "started_at", "time"};

size_t Importance(const std::string& key) {
  const auto at = std::find_if(kOrder.begin(), kOrder.end(),
                               [&](std::string_view start) { return key.starts_with(start); });
  return static_cast<size_t>(at - kOrder.begin());
}

std::string Shown(const Json& value) {
  if (value.is_string()) return EscapeControl(value.get<std::string>(), kValueBytes);
  return EscapeControl(DumpJson(value), kValueBytes);
}

void Flatten(const std::string& key, const Json& value, std::map<std::string, std::string>& into) {
  if (into.size() >= kMostSettings) return;
  if (value.is_object() && !value.empty()) {
    for (const auto& [name, item] : value.items()) {
      Flatten(key.empty() ? name : key + "." + name, item, into);
    }
  } else if (value.is_array() && !value.empty() && value.front().is_object()) {
    for (size_t i = 0; i < value.size(); ++i) {
      Flatten(key + "." + std::to_string(i), value[i], into);
    }
  } else if (!key.empty()) {
    into[key] = Shown(value);
  }
}

std::map<std::string, std::string> EnvironmentOf(const runs::Run& run) {
  std::map<std::string, std::string> flat;
  if (run.environment.empty()) return flat;
  const auto parsed = ParseJson(run.environment);
  if (parsed && parsed->is_object()) Flatten("", *parsed, flat);
  return flat;
}

std::string NumberOrUnknown(const std::optional<int64_t>& value) {
  return value ? std::to_string(*value) : kUnknown;
}

}  // namespace

bool EnvironmentFlag(const runs::Run& run, const char* key) {
  const auto parsed = ParseJson(run.environment.empty() ? "{}" : run.environment);
  if (!parsed || !parsed->is_object()) return false;
  const auto at = parsed->find(key);
  return at != parsed->end() && at->is_boolean() && at->get<bool>();
}

std::vector<Setting> DifferentSettings(const runs::Source& a, const runs::Source& b,
                                       const Course& course, const LayerPairs& layers) {
  std::vector<Setting> settings;
  const auto add = [&](const std::string& key, const std::string& x, const std::string& y) {
    if (x != y) settings.push_back({key, x, y});
  };
  const auto word = [](const std::string& text) { return text.empty() ? kUnknown : text; };
  add("precision", word(a.run.precision), word(b.run.precision));
  if (course.lr_parts_at) {
    settings.push_back({"lr from step " + std::to_string(*course.lr_parts_at),
                        runs::Number(course.lr_a), runs::Number(course.lr_b)});
  }
  const auto scaler = [](const run_summary::Summary& s) {
    return s.scale_first ? "starts at " + runs::Number(s.scale_first) : std::string("none");
  };
  add("loss scale", scaler(course.a), scaler(course.b));
  add("layers that the other run lacks", std::to_string(layers.count_only_a),
      std::to_string(layers.count_only_b));
  if (layers.other_sizes > 0) {
    settings.push_back({"layers of another size",
                        runs::Count(layers.other_sizes, "layer") + ", first " +
                            runs::Name(layers.first_other_size),
                        "the same names, other numbers of parameters"});
  }
  add("world_size", std::to_string(a.run.world_size), std::to_string(b.run.world_size));
  add("trace_interval", NumberOrUnknown(a.run.trace_interval),
      NumberOrUnknown(b.run.trace_interval));
  add("resumes a run", a.run.parent ? "yes" : "no", b.run.parent ? "yes" : "no");

  const auto of_a = EnvironmentOf(a.run), of_b = EnvironmentOf(b.run);
  std::vector<Setting> environment;
  const auto collect = [&](const std::string& key) {
    if (std::find(kNoSettings.begin(), kNoSettings.end(), key) != kNoSettings.end()) return;
    const auto in_a = of_a.find(key), in_b = of_b.find(key);
    const std::string x = in_a == of_a.end() ? kUnknown : in_a->second;
    const std::string y = in_b == of_b.end() ? kUnknown : in_b->second;
    if (x != y) environment.push_back({EscapeControl(key, 100), x, y});
  };
  for (const auto& [key, unused] : of_a) collect(key);
  for (const auto& [key, unused] : of_b) {
    if (!of_a.contains(key)) collect(key);
  }
  std::stable_sort(environment.begin(), environment.end(), [](const Setting& x, const Setting& y) {
    return Importance(x.key) < Importance(y.key);
  });
  settings.insert(settings.end(), environment.begin(), environment.end());
  return settings;
}

}  // namespace mpnanny::compare_runs
