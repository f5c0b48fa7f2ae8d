#include "engines/check/inputs/settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

// How a value is read.
enum class Form {
  kNumber,
  kPower,      // of two
  kFlag,       // true, false; a flag without a value is on
  kText,       // as it stands
  kPrecision,  // "fp16", "16-mixed", "bf16-true" …: says several things
  kCpuName,    // "cpu" is on
  kApexLevel,  // "O3" is on
};

struct Row {
  Framework framework;
  std::string_view name;
  Option option;
  Form form;
};

constexpr std::array kRows = {
    Row{Framework::kDeepSpeed, "fp16.enabled", Option::kFp16, Form::kFlag},
    Row{Framework::kDeepSpeed, "bf16.enabled", Option::kBf16, Form::kFlag},
    Row{Framework::kDeepSpeed, "bfloat16.enabled", Option::kBf16, Form::kFlag},
    Row{Framework::kDeepSpeed, "fp16.loss_scale", Option::kLossScale, Form::kNumber},
    Row{Framework::kDeepSpeed, "fp16.initial_scale_power", Option::kInitialScale, Form::kPower},
    Row{Framework::kDeepSpeed, "fp16.min_loss_scale", Option::kMinScale, Form::kNumber},
    Row{Framework::kDeepSpeed, "fp16.loss_scale_window", Option::kScaleWindow, Form::kNumber},
    Row{Framework::kDeepSpeed, "fp16.fp16_master_weights_and_grads", Option::kHalfMaster,
        Form::kFlag},
    Row{Framework::kDeepSpeed, "bf16.bf16_master_weights_and_grads", Option::kHalfMaster,
        Form::kFlag},
    Row{Framework::kDeepSpeed, "bf16.check_grad_overflow", Option::kOverflowCheck, Form::kFlag},
    Row{Framework::kDeepSpeed, "amp.enabled", Option::kApexAmp, Form::kFlag},
    Row{Framework::kDeepSpeed, "zero_optimization.stage", Option::kZeroStage, Form::kNumber},
    Row{Framework::kDeepSpeed, "communication_data_type", Option::kSentAs, Form::kText},
    Row{Framework::kDeepSpeed, "data_types.grad_accum_dtype", Option::kSummedAs, Form::kText},
    Row{Framework::kDeepSpeed, "gradient_accumulation_steps", Option::kMicroBatches, Form::kNumber},
    Row{Framework::kDeepSpeed, "scheduler.params.total_num_steps", Option::kRunSteps,
        Form::kNumber},
    Row{Framework::kDeepSpeed, "train-iters", Option::kRunSteps, Form::kNumber},  // gpt-neox
    Row{Framework::kDeepSpeed, "train_iters", Option::kRunSteps, Form::kNumber},
    Row{Framework::kAccelerate, "mixed_precision", Option::kFp16, Form::kPrecision},
    Row{Framework::kAccelerate, "use_cpu", Option::kCpu, Form::kFlag},
    Row{Framework::kAccelerate, "cpu", Option::kCpu, Form::kFlag},
    Row{Framework::kTransformers, "fp16", Option::kFp16, Form::kFlag},
    Row{Framework::kTransformers, "bf16", Option::kBf16, Form::kFlag},
    Row{Framework::kTransformers, "use_cpu", Option::kCpu, Form::kFlag},
    Row{Framework::kTransformers, "no_cuda", Option::kCpu, Form::kFlag},
    Row{Framework::kTransformers, "fp16_opt_level", Option::kPureFp16, Form::kApexLevel},
    Row{Framework::kTransformers, "max_steps", Option::kRunSteps, Form::kNumber},
    Row{Framework::kLightning, "precision", Option::kFp16, Form::kPrecision},
    Row{Framework::kLightning, "accelerator", Option::kCpu, Form::kCpuName},
    Row{Framework::kLightning, "amp_level", Option::kPureFp16, Form::kApexLevel},
    Row{Framework::kLightning, "max_steps", Option::kRunSteps, Form::kNumber},
    Row{Framework::kMegatron, "fp16", Option::kFp16, Form::kFlag},
    Row{Framework::kMegatron, "bf16", Option::kBf16, Form::kFlag},
    Row{Framework::kMegatron, "loss-scale", Option::kLossScale, Form::kNumber},
    Row{Framework::kMegatron, "initial-loss-scale", Option::kInitialScale, Form::kNumber},
    Row{Framework::kMegatron, "min-loss-scale", Option::kMinScale, Form::kNumber},
    Row{Framework::kMegatron, "loss-scale-window", Option::kScaleWindow, Form::kNumber},
    Row{Framework::kMegatron, "train-iters", Option::kRunSteps, Form::kNumber},
    Row{Framework::kFairseq, "fp16", Option::kFp16, Form::kFlag},
    Row{Framework::kFairseq, "bf16", Option::kBf16, Form::kFlag},
    Row{Framework::kFairseq, "memory-efficient-fp16", Option::kHalfMaster, Form::kFlag},
    Row{Framework::kFairseq, "memory-efficient-bf16", Option::kHalfMaster, Form::kFlag},
    Row{Framework::kFairseq, "fp16-init-scale", Option::kInitialScale, Form::kNumber},
    Row{Framework::kFairseq, "fp16-scale-window", Option::kScaleWindow, Form::kNumber},
    Row{Framework::kFairseq, "min-loss-scale", Option::kMinScale, Form::kNumber},
    Row{Framework::kFairseq, "max-update", Option::kRunSteps, Form::kNumber},
};

std::optional<double> ReadNumber(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

std::optional<bool> ReadFlag(std::string_view text) {
  const std::string lower = LowerCase(text);
  if (lower == "true" || lower == "yes" || lower == "on" || lower == "1") return true;
  if (lower == "false" || lower == "no" || lower == "off" || lower == "0") return false;
  return {};
}

// A name with either kind of dash: fairseq's flags are also the keys of its YAML files.
bool SameName(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return x == y || (x == '_' && y == '-') || (x == '-' && y == '_');
         });
}

}  // namespace

const char* FrameworkName(Framework framework) {
  switch (framework) {
    case Framework::kDeepSpeed:
      return "DeepSpeed";
    case Framework::kAccelerate:
      return "Accelerate";
    case Framework::kTransformers:
      return "the Trainer of transformers";
    case Framework::kLightning:
      return "Lightning";
    case Framework::kMegatron:
      return "Megatron-LM";
    case Framework::kFairseq:
      return "fairseq";
  }
  return "";
}

const Setting* Settings::Find(Option option) const {
  const auto found = std::find_if(list.rbegin(), list.rend(),
                                  [&](const Setting& one) { return one.option == option; });
  return found == list.rend() ? nullptr : &*found;
}

std::optional<double> Settings::Number(Option option) const {
  const Setting* setting = Find(option);
  return setting == nullptr ? std::nullopt : setting->number;
}

bool Settings::IsOn(Option option) const {
  const Setting* setting = Find(option);
  return setting != nullptr && setting->on == true;
}

bool Settings::IsOff(Option option) const {
  const Setting* setting = Find(option);
  return setting == nullptr || setting->on == false;
}

void AddSetting(Framework framework, std::string_view name, std::string_view text, bool quoted,
                Bytes where, Bytes value, Settings* settings) {
  for (const Row& row : kRows) {
    if (row.framework != framework || !SameName(row.name, name)) continue;
    Setting setting{
        row.option, std::string(name), std::string(text.substr(0, 80)), quoted, where, value, {},
        {}};
    switch (row.form) {
      case Form::kNumber:
        setting.number = ReadNumber(text);
        break;
      case Form::kPower:
        setting.number = ReadNumber(text);
        if (setting.number) setting.number = std::exp2(*setting.number);
        break;
      case Form::kFlag:
        // DeepSpeed asks Python whether the value is true, which every text is but "".
        if (framework != Framework::kDeepSpeed || !quoted) setting.on = ReadFlag(text);
        if (text.empty()) setting.on = true;
        break;
      case Form::kText:
        setting.text = LowerCase(setting.text);
        break;
      case Form::kPrecision: {
        const std::string lower = LowerCase(text);
        if (lower == "16-true" || lower == "fp16-true") setting.option = Option::kPureFp16;
        if (lower == "bf16" || lower == "bf16-mixed") setting.option = Option::kBf16;
        const bool kept = framework == Framework::kLightning && lower == "bf16-true";
        if (kept) setting.option = Option::kHalfMaster;
        setting.on = lower.find("16") != std::string::npos && (kept || lower != "bf16-true") &&
                     lower.find("transformer-engine") == std::string::npos;
        break;
      }
      case Form::kCpuName:
        setting.on = LowerCase(text) == "cpu";
        break;
      case Form::kApexLevel:
        setting.on = text == "O3";
        break;
    }
    // fairseq's --memory-efficient-fp16 turns FP16 on.
    const bool implies = framework == Framework::kFairseq &&
                         setting.option == Option::kHalfMaster && setting.on == true;
    settings->list.push_back(setting);
    if (implies) {
      setting.option = name.find("bf16") == std::string_view::npos ? Option::kFp16 : Option::kBf16;
      settings->list.push_back(std::move(setting));
    }
    return;
  }
}

bool IsSettingsPath(std::string_view path) {
  return path.ends_with(".json") || path.ends_with(".yaml") || path.ends_with(".yml") ||
         path.ends_with(".sh");
}

bool MayHoldSettings(std::string_view text) {
  const auto has = [&](std::string_view word) { return Holds(text, word); };
  return has("fp16") || has("bf16") || has("mixed_precision") || has("zero_optimization") ||
         (has("precision") && (has("trainer") || has("16-true")));
}

}  // namespace mpnanny::check
