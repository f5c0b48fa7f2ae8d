#include "tools/choose_precision/run_report.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.h"
#include "engines/python_code/fields.h"
#include "engines/runs/operator_words.h"
#include "engines/runs/shadow_text.h"
#include "engines/runs/show.h"
#include "tools/choose_precision/report.h"

namespace mpnanny::choose_precision {
namespace {

using runs::Count;
using runs::Number;
using runs::PercentText;

constexpr size_t kOutsideShown = 5;

std::string LayerName(const std::string& raw) {
  return raw.empty() ? "the model itself" : runs::Name(raw);
}

std::string PlaceText(const FixedLines& each) {
  const std::string lines = runs::LinesText(each.lines, "").English();
  return lines.empty() ? runs::Name(each.module) : lines;
}

// What the run leaves to be decided, and by what.
std::string LimitText(const std::string& limit) {
  if (limit == "no_samples") return "The run has no sampled step: nothing is known of its range.";
  if (limit == "no_shadow_steps") {
    return "The run has no shadow step, so what its format loses was not measured: train again "
           "with "
           "`shadow` on, or call this with `model` and inputs.";
  }
  if (limit == "other_format") {
    return "The run did not train in this format: its range is measured, its rounding is not. Call "
           "this with `model` and inputs (`try` trains it), or record some steps in it.";
  }
  if (limit == "not_precision") {
    return "The run went wrong, and no shadow step proves that precision is why: ask diagnose_run "
           "first.";
  }
  return limit;
}

Json LayerJson(const LayerRecord& layer) {
  Json local = Json::object();
  for (const auto& [format, error] :
       {std::pair("fp16", layer.fp16), std::pair("bf16", layer.bf16), std::pair("e4m3", layer.e4m3),
        std::pair("e5m2", layer.e5m2)}) {
    if (error) local[format] = JsonNumber(*error, 3);
  }
  Json row = {{"module", runs::Name(layer.name)},
              {"absmax", JsonNumber(layer.absmax, 4)},
              {"absmax_step", layer.absmax_step ? Json(*layer.absmax_step) : Json()},
              {"gradient_absmax", JsonNumber(layer.gradient_absmax, 4)}};
  if (!local.empty()) row["local"] = std::move(local);
  if (layer.fp16_flushed.value_or(0) > 0) row["fp16_flushed"] = JsonNumber(*layer.fp16_flushed, 3);
  return row;
}

Json OutsideJson(const Recorded& recorded, const JudgedWay& way) {
  Json names = Json::array();
  for (const size_t at : way.outside) names.push_back(runs::Name(recorded.layers[at].name));
  return names;
}

Json ScalerJson(const RunScaling& scaling) {
  return {{"init_scale", scaling.init_scale},
          {"growth_interval", scaling.growth_interval},
          {"gradient_absmax", JsonNumber(scaling.gradient_absmax, 4)},
          {"flushed_unscaled", JsonNumber(scaling.flushed_unscaled, 3)},
          {"flushed", JsonNumber(scaling.flushed, 3)}};
}

// Settings of plain PyTorch; the places in FP32 as comments, since they are lines of the user's.
std::string Code(const RunPlan& plan, const Device& device) {
  if (plan.way == "fp32" || plan.way == "bf16-weights") return "";
  const bool fp16 = plan.way == "fp16-autocast";
  const std::string type =
      '"' + (device.type.empty() ? "cuda" : EscapeControl(device.type, 30)) + '"';
  std::string text = "import torch\n\n";
  if (fp16) {
    text += "scaler = torch.amp.GradScaler(" + type +
            ", init_scale=" + Number(plan.scaler->init_scale, 9) +
            ", growth_interval=" + std::to_string(plan.scaler->growth_interval) + ")\n";
  }
  text += "with torch.autocast(" + type + ", dtype=torch." + (fp16 ? "float16" : "bfloat16") +
          "):\n    loss = criterion(model(batch), target)\n";
  for (const FixedLines& each : plan.islands) {
    text += "# " + PlaceText(each) +
            ": inside `with torch.autocast(" + type + ", enabled=False):`, on inputs.float()\n";
  }
  return text;
}

std::string Headline(const std::string& run, const Recorded& recorded, const Device& device,
                     const RunPlan& plan) {
  std::string text = run + " on " + EscapeControl(device.title, 100) + ": ";
  if (plan.verdict == "nothing_lower_on_device") {
    return text + "FP32; this device has no matrix units for a lower format.\n";
  }
  if (plan.verdict == "not_established") {
    return text + "not established; " + WayText(plan.way) + " is the format to try.\n";
  }
  text += WayText(plan.way);
  if (!plan.islands.empty()) {
    text += ", with " + Count(static_cast<int64_t>(plan.islands.size()), "place") + " in FP32";
  }
  return text + " (measured in " + Count(recorded.shadow_steps, "shadow step") + ").\n";
}

std::string IslandText(const FixedLines& each) {
  std::string text = "  FP32: " + PlaceText(each);
  if (!each.module.empty()) text += " (" + runs::Name(each.module) + ")";
  text += ", " + runs::OperatorWord(each.op);
  if (each.error_before && each.error_after) {
    text += ": error " + PercentText(*each.error_before) + ", with these lines in FP32 " +
            PercentText(*each.error_after);
  } else if (each.error_after) {
    text += ": not finite, with these lines in FP32 an error of " + PercentText(*each.error_after);
  }
  return EscapeControl(text, 600) + "\n";
}

std::string WayLine(const Recorded& recorded, const JudgedWay& way) {
  std::string text = "  " + WayText(way.way) + ": ";
  switch (way.status) {
    case WayStatus::kMeasured:
      return text + "what the run trained in.\n";
    case WayStatus::kNotOnDevice:
      return text + "this device has no matrix units for it.\n";
    case WayStatus::kInRange:
      return text + "every recorded value fits its range; its rounding was not measured.\n";
    default:
      break;
  }
  std::vector<std::string> named;
  for (const size_t at : way.outside) {
    if (named.size() == kOutsideShown) break;
    const LayerRecord& layer = recorded.layers[at];
    named.push_back(LayerName(layer.name) + " " + Number(layer.absmax, 4) + " (step " +
                    std::to_string(*layer.absmax_step) + ")");
  }
  text += Count(static_cast<int64_t>(way.outside.size()), "layer") +
          " beyond its largest number: " + Join(named, ", ");
  return text + (named.size() < way.outside.size() ? " …\n" : "\n");
}

std::string ScalerText(const RunPlan& plan) {
  if (!plan.scaler) return "";
  const RunScaling& scaling = *plan.scaler;
  std::string text = "Loss scale: begin at " + Number(scaling.init_scale, 9) +
                     ", growth_interval " + std::to_string(scaling.growth_interval) +
                     " (largest gradient " + Number(scaling.gradient_absmax, 3);
  if (scaling.flushed && scaling.flushed_unscaled) {
    text += "; gradients that become zero: " + PercentText(*scaling.flushed_unscaled) +
            " without a scale, " + PercentText(*scaling.flushed) + " with it";
  }
  return text + ").\n";
}

std::string StatesText(const Recorded& recorded) {
  if (!recorded.frozen) return "";
  return "16-bit weights: " + PercentText(*recorded.frozen) +
         " of the recorded updates were below half of the weight's last place" +
         (*recorded.frozen > 0.5 ? "; keep FP32 copies in the optimizer.\n" : ".\n");
}

}  // namespace

Json RunPlanJson(const std::string& run, const Recorded& recorded, const Device& device,
                 const RunPlan& plan, size_t bytes) {
  Json islands = Json::array();
  for (const FixedLines& each : plan.islands) {
    Json lines = Json::array();
    for (const std::string& line : each.lines) lines.push_back(runs::Name(line));
    islands.push_back({{"module", runs::Name(each.module)},
                       {"operator", runs::Name(each.op)},
                       {"kind", each.kind},
                       {"lines", std::move(lines)},
                       {"without_it", JsonNumber(each.error_before, 3)},
                       {"with_it", JsonNumber(each.error_after, 3)}});
  }
  Json ways = Json::array();
  for (const JudgedWay& way : plan.ways) {
    ways.push_back({{"way", way.way},
                    {"status", WayStatusName(way.status)},
                    {"out_of_range", OutsideJson(recorded, way)}});
  }
  std::vector<const LayerRecord*> order;
  for (const LayerRecord& layer : recorded.layers) {
    if (layer.absmax || layer.bf16) order.push_back(&layer);
  }
  std::stable_sort(order.begin(), order.end(), [](const LayerRecord* a, const LayerRecord* b) {
    return a->absmax.value_or(0) > b->absmax.value_or(0);
  });
  Json layers = Json::array();
  for (const LayerRecord* layer : order) layers.push_back(LayerJson(*layer));
  Json limits = plan.limits;
  for (const std::string& note : recorded.notes) limits.push_back(EscapeControl(note, 300));
  Json answer = {{"verdict", plan.verdict},
                 {"way", plan.way},
                 {"target", run},
                 {"device", DeviceJson(device)},
                 {"trained_in", plan.trained_in.empty() ? Json() : Json(plan.trained_in)},
                 {"samples", recorded.samples},
                 {"shadow_steps", recorded.shadow_steps},
                 {"islands", std::move(islands)},
                 {"alternatives", std::move(ways)},
                 {"scaler", plan.scaler ? ScalerJson(*plan.scaler) : Json::object()},
                 {"states", Json::array()},
                 {"layers", std::move(layers)},
                 {"code", Json::array()},
                 {"limits", std::move(limits)}};
  if (recorded.frozen) {
    answer["states"].push_back({{"state", "weights"},
                                {"format", recorded.computes_in},
                                {"lost", JsonNumber(*recorded.frozen, 3)},
                                {"keep_fp32", *recorded.frozen > 0.5}});
  }
  if (const std::string code = Code(plan, device); !code.empty()) {
    answer["code"].push_back({{"library", "pytorch"}, {"language", "python"}, {"text", code}});
  }
  return python_code::Shortened(answer, bytes, {"islands", "code", "layers"});
}

std::string RunPlanText(const std::string& run, const Recorded& recorded, const Device& device,
                        const RunPlan& plan, size_t bytes) {
  std::string text = Headline(run, recorded, device, plan);
  for (const std::string& limit : plan.limits) text += LimitText(limit) + "\n";
  for (const std::string& note : recorded.notes) text += EscapeControl(note, 300) + "\n";
  for (const FixedLines& each : plan.islands) {
    const std::string line = IslandText(each);
    if (text.size() + line.size() > bytes / 2) break;
    text += line;
  }
  std::string ways = "Formats, by the range of " + Count(recorded.samples, "sampled step") + ":\n";
  for (const JudgedWay& way : plan.ways) ways += WayLine(recorded, way);
  const std::string code = Code(plan, device);
  std::string notes;
  for (const std::string& note : device.notes)
    notes += "Of the device: " + EscapeControl(note, 200) + ".\n";
  if (device.type.empty() && !code.empty()) {
    notes += "The run did not record its device: the code stands for \"cuda\".\n";
  } else if (device.type == "cpu") {
    notes += "The run was on a CPU, and so is the code: name a GPU with `device` for its plan.\n";
  }
  for (const std::string& part : {ways, ScalerText(plan), StatesText(recorded), notes,
                                  code.empty() ? "" : "\n```python\n" + code + "```\n"}) {
    if (text.size() + part.size() <= bytes) text += part;
  }
  return text;
}

}  // namespace mpnanny::choose_precision
