#include "engines/comparison/configuration.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>

#include "base/json.h"
#include "base/text.h"
#include "engines/runs/show.h"

namespace mpnanny::comparison {
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

// What was recorded of it: an object, empty where nothing was.
Json Environment(const runs::Run& run) {
  auto parsed = ParseJson(run.environment.empty() ? "{}" : run.environment);
  return parsed && parsed->is_object() ? *std::move(parsed) : Json::object();
}

std::map<std::string, std::string> EnvironmentOf(const runs::Run& run) {
  std::map<std::string, std::string> flat;
  Flatten("", Environment(run), flat);
  return flat;
}

// Name of the file, without its folder; "" where it is not recorded.
std::string ScriptOf(const runs::Run& run) {
  const Json environment = Environment(run);
  const Json& script = ValueAt(environment, {"script"});
  if (!script.is_string()) return "";
  const auto path = script.get<std::string>();
  return EscapeControl(path.substr(path.find_last_of("/\\") + 1), kValueBytes);
}

bool ShareLittle(const LayerPairs& layers) {
  const auto common = static_cast<int64_t>(layers.common.size());
  const int64_t in_a = common + layers.count_only_a, in_b = common + layers.count_only_b;
  return in_a > 0 && in_b > 0 && 2 * common < std::max(in_a, in_b);
}

bool HaveOtherSizes(const LayerPairs& layers) {
  return 2 * layers.other_sizes > static_cast<int64_t>(layers.common.size());
}

std::string NumberOrUnknown(const std::optional<int64_t>& value) {
  return value ? std::to_string(*value) : kUnknown;
}

// What each of two runs watched that share little: the names tell whether it is the model.
std::string WatchedNames(const LayerPairs& layers) {
  constexpr size_t kNamed = 3;
  const auto some = [](const std::vector<std::string>& names) {
    std::vector<std::string> shown;
    for (const std::string& name : names) {
      if (shown.size() < kNamed) shown.push_back(EscapeControl(name, 60));
    }
    return Join(shown, ", ") + (names.size() > kNamed ? " …" : "");
  };
  if (layers.only_a.empty() || layers.only_b.empty()) return "";
  return " Only a watched " + some(layers.only_a) + "; only b " + some(layers.only_b) + ".";
}

}  // namespace

bool IsOtherModel(const LayerPairs& layers) {
  return ShareLittle(layers) || HaveOtherSizes(layers);
}

bool EnvironmentFlag(const runs::Run& run, const char* key) {
  const Json environment = Environment(run);
  const auto at = environment.find(key);
  return at != environment.end() && at->is_boolean() && at->get<bool>();
}

std::string DifferentPrograms(const runs::Run& a, const runs::Run& b, const LayerPairs& layers) {
  const auto common = static_cast<int64_t>(layers.common.size());
  const int64_t in_a = common + layers.count_only_a, in_b = common + layers.count_only_b;
  std::vector<std::string> why;
  if (ShareLittle(layers)) {
    why.push_back("they share " + std::to_string(common) + " of " + std::to_string(in_a) + " and " +
                  std::to_string(in_b) + " layers");
  } else if (HaveOtherSizes(layers)) {
    why.push_back(std::to_string(layers.other_sizes) + " of " + std::to_string(common) +
                  " layers of one name have other sizes");
  }
  const bool other_model = !why.empty();
  const std::string script_a = ScriptOf(a), script_b = ScriptOf(b);
  if (!script_a.empty() && !script_b.empty() && script_a != script_b) {
    why.push_back("a ran " + script_a + ", b " + script_b);
  }
  if (why.empty()) return "";
  return other_model ? "a and b are two different programs: " + Join(why, "; ") + "." +
                           WatchedNames(layers) +
                           " Only what is named alike is compared, and the verdict says nothing "
                           "of one program in two settings."
                     : "a and b come from two scripts: " + Join(why, "; ") +
                           ". Their layers are alike; what differs may be the scripts.";
}

std::vector<Setting> DifferentSettings(const runs::Source& a, const runs::Source& b,
                                       const Course& course, const LayerPairs& layers) {
  std::vector<Setting> settings;
  const auto add = [&](const std::string& key, const std::string& x, const std::string& y) {
    if (x != y) settings.push_back({key, x, y});
  };
  const auto word = [](const std::string& text) { return text.empty() ? kUnknown : text; };
  add("precision", word(std::string(a.run.precision.text())),
      word(std::string(b.run.precision.text())));
  if (course.lr_parts_at) {
    settings.push_back({"lr from step " + std::to_string(*course.lr_parts_at),
                        runs::Number(course.lr_a), runs::Number(course.lr_b)});
  }
  const auto scaler = [](const summary::Summary& s) {
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

}  // namespace mpnanny::comparison
