// JSON and YAML: configurations recognised by the paths that they hold.

#include <algorithm>
#include <array>
#include <map>

#include "base/text.h"
#include "base/yaml_values.h"
#include "engines/check/inputs/settings.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

// Comments of JSON (// and /* */, outside of strings) as spaces, so that offsets stay.
std::string BlankComments(std::string_view json) {
  std::string text(json);
  bool string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (string) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == '"' || text[i] == '\n')
        string = false;
      continue;
    }
    if (text[i] == '"') string = true;
    const std::string_view rest = std::string_view(text).substr(i, 2);
    if (rest != "//" && rest != "/*") continue;
    size_t end = 0;
    if (rest == "//") end = std::min(text.find('\n', i), text.size());
    if (rest == "/*") end = std::min(text.find("*/", i + 2), text.size() - 2) + 2;
    for (; i < end; ++i) {
      if (text[i] != '\n') text[i] = ' ';
    }
    --i;
  }
  return text;
}

// Where in a file a setting of a framework stands: the path below the configuration's root.
struct Place {
  Framework framework;
  std::string_view path;
  std::string_view name;  // for AddSetting
  bool tells;             // by this alone the root is known to be of that framework
};

constexpr std::array kPlaces = {
    Place{Framework::kDeepSpeed, "fp16.enabled", "fp16.enabled", true},
    Place{Framework::kDeepSpeed, "fp16.initial_scale_power", "fp16.initial_scale_power", true},
    Place{Framework::kDeepSpeed, "fp16.loss_scale", "fp16.loss_scale", false},
    Place{Framework::kDeepSpeed, "fp16.min_loss_scale", "fp16.min_loss_scale", false},
    Place{Framework::kDeepSpeed, "fp16.loss_scale_window", "fp16.loss_scale_window", false},
    Place{Framework::kDeepSpeed, "fp16.fp16_master_weights_and_grads",
          "fp16.fp16_master_weights_and_grads", true},
    Place{Framework::kDeepSpeed, "bf16.enabled", "bf16.enabled", true},
    Place{Framework::kDeepSpeed, "bf16.bf16_master_weights_and_grads",
          "bf16.bf16_master_weights_and_grads", true},
    Place{Framework::kDeepSpeed, "bf16.check_grad_overflow", "bf16.check_grad_overflow", true},
    Place{Framework::kDeepSpeed, "bfloat16.enabled", "bfloat16.enabled", true},
    Place{Framework::kDeepSpeed, "amp.enabled", "amp.enabled", false},
    Place{Framework::kDeepSpeed, "zero_optimization.stage", "zero_optimization.stage", true},
    Place{Framework::kDeepSpeed, "communication_data_type", "communication_data_type", false},
    Place{Framework::kDeepSpeed, "data_types.grad_accum_dtype", "data_types.grad_accum_dtype",
          false},
    Place{Framework::kDeepSpeed, "gradient_accumulation_steps", "gradient_accumulation_steps",
          false},
    Place{Framework::kDeepSpeed, "scheduler.params.total_num_steps",
          "scheduler.params.total_num_steps", false},
    Place{Framework::kDeepSpeed, "train-iters", "train-iters", false},
    Place{Framework::kDeepSpeed, "train_iters", "train_iters", false},
    Place{Framework::kAccelerate, "mixed_precision", "mixed_precision", false},
    Place{Framework::kAccelerate, "use_cpu", "use_cpu", false},
    Place{Framework::kAccelerate, "distributed_type", "", true},
    Place{Framework::kAccelerate, "compute_environment", "", true},
    Place{Framework::kTransformers, "fp16", "fp16", false},
    Place{Framework::kTransformers, "bf16", "bf16", false},
    Place{Framework::kTransformers, "use_cpu", "use_cpu", false},
    Place{Framework::kTransformers, "no_cuda", "no_cuda", false},
    Place{Framework::kTransformers, "fp16_opt_level", "fp16_opt_level", true},
    Place{Framework::kTransformers, "max_steps", "max_steps", false},
    Place{Framework::kTransformers, "per_device_train_batch_size", "", true},
    Place{Framework::kTransformers, "num_train_epochs", "", true},
    Place{Framework::kTransformers, "lr_scheduler_type", "", true},
    Place{Framework::kLightning, "trainer.precision", "precision", true},
    Place{Framework::kLightning, "precision", "precision", false},
    Place{Framework::kLightning, "trainer.accelerator", "accelerator", false},
    Place{Framework::kLightning, "trainer.amp_level", "amp_level", false},
    Place{Framework::kLightning, "trainer.max_steps", "max_steps", false},
    Place{Framework::kFairseq, "common.fp16", "fp16", true},
    Place{Framework::kFairseq, "common.bf16", "bf16", true},
    Place{Framework::kFairseq, "common.memory_efficient_fp16", "memory-efficient-fp16", true},
    Place{Framework::kFairseq, "common.memory_efficient_bf16", "memory-efficient-bf16", true},
    Place{Framework::kFairseq, "common.fp16_init_scale", "fp16-init-scale", true},
    Place{Framework::kFairseq, "common.fp16_scale_window", "fp16-scale-window", true},
    Place{Framework::kFairseq, "common.min_loss_scale", "min-loss-scale", true},
    Place{Framework::kFairseq, "optimization.max_update", "max-update", false},
};

// `path` = root + "." + below; false if it does not end so.
bool RootOf(std::string_view path, std::string_view below, std::string_view* root) {
  if (!path.ends_with(below)) return false;
  *root = path.substr(0, path.size() - below.size());
  if (root->empty()) return true;
  if (!root->ends_with('.')) return false;
  root->remove_suffix(1);
  return true;
}

// True where a `precision` key is a trainer's: at the top of a file of a trainer's arguments, or
// below a key that says so. Below anything else (a layer's arguments) it is that thing's own.
bool IsOfTrainer(std::string_view root) {
  const std::string parent = LowerCase(root.substr(root.rfind('.') + 1));
  return parent.empty() || Holds(parent, "train") || Holds(parent, "fabric") ||
         Holds(parent, "lightning");
}

// True if the file gives a loss scale of its own, or chooses an accelerator that scales by itself
// what it trains in FP16: the weights may be FP16, the loss is scaled.
bool ScalesByItself(const std::vector<YamlValue>& values) {
  return std::any_of(values.begin(), values.end(), [](const YamlValue& entry) {
    const std::string path = LowerCase(entry.path);
    const std::string key = path.substr(path.rfind('.') + 1);
    if (Holds(key, "loss_scal") || Holds(key, "loss-scal") || key == "lossscale") return true;
    return Holds(path, "accelerator") && LowerCase(entry.text) == "ipu";
  });
}

std::vector<Settings> Recognise(const std::vector<YamlValue>& values) {
  struct RootSettings {
    Settings settings;
    bool told = false;
  };
  std::map<std::pair<std::string, Framework>, RootSettings> all;
  const bool scaled = ScalesByItself(values);
  for (const YamlValue& entry : values) {
    for (const Place& place : kPlaces) {
      std::string_view root;
      if (!RootOf(entry.path, place.path, &root)) continue;
      // Anywhere else than below a trainer it is Lightning's by its words only.
      const bool own = place.path == "precision";
      if (own && (!entry.text.ends_with("16-true") || root == "trainer" ||
                  root.ends_with(".trainer") || !IsOfTrainer(root)))
        continue;
      RootSettings& found = all[{std::string(root), place.framework}];
      found.settings.framework = place.framework;
      found.told = found.told || place.tells || own;
      if (place.name.empty()) continue;
      const size_t before = found.settings.list.size();
      AddSetting(place.framework, place.name, entry.text, entry.quoted, {entry.key, entry.end},
                 {entry.begin, entry.end}, &found.settings);
      // Nothing after the colon is nothing, not a flag without a value.
      if (entry.text.empty()) found.settings.list.resize(before);
      if (scaled && place.framework == Framework::kLightning)
        std::erase_if(found.settings.list,
                      [](const Setting& setting) { return setting.option == Option::kPureFp16; });
    }
  }
  std::vector<Settings> settings;
  for (auto& [where, found] : all) {
    if (found.told && !found.settings.list.empty()) settings.push_back(std::move(found.settings));
  }
  return settings;
}

}  // namespace

std::vector<Settings> ReadDataSettings(std::string_view text, bool json, std::string* note) {
  std::string blanked;
  if (json) {
    blanked = BlankComments(text);
    text = blanked;
  }
  const YamlValues values = ReadYamlValues(text);
  *note = values.mistake;
  std::vector<Settings> settings;
  for (const std::vector<YamlValue>& document : values.documents) {
    for (Settings& one : Recognise(document)) settings.push_back(std::move(one));
  }
  return settings;
}

}  // namespace mpnanny::check
