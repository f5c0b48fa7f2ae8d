#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/model_calls.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::scaler_without_autocast {
namespace {

// True if a module of this project that is not at hand may run under autocast: a relative import,
// or one whose name no installed package is known by.
bool ImportsUnknown(const FileFacts& facts) {
  static constexpr std::string_view kKnown[] = {
      "torch",       "torchvision", "torchaudio",   "numpy",  "os",         "sys",     "time",
      "math",        "random",      "argparse",     "json",   "logging",    "tqdm",    "pathlib",
      "datetime",    "collections", "functools",    "typing", "itertools",  "copy",    "PIL",
      "cv2",         "scipy",       "sklearn",      "pandas", "matplotlib", "yaml",    "wandb",
      "warnings",    "shutil",      "glob",         "pickle", "re",         "gc",      "contextlib",
      "dataclasses", "__future__",  "tensorboardX", "timm",   "einops",     "mpnanny", "string"};
  return std::any_of(
      facts.names.imports().begin(), facts.names.imports().end(), [&](const Import& import) {
        const std::string_view root =
            std::string_view(import.qualified).substr(0, import.qualified.find('.'));
        return std::find(std::begin(kKnown), std::end(kKnown), root) == std::end(kKnown);
      });
}

// True if the file moves something to a device: a training, and not an extract of one.
bool UsesDevice(const FileFacts& facts) {
  return !facts.names.CallsNamed("cuda").empty() || !facts.names.CallsNamed("to").empty();
}

// True if a name in the code contains one of the words.
bool Mentions(const FileFacts& facts, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    if (facts.syntax.text().find(word) == std::string::npos) continue;
    for (NodeId id = 0; id < facts.syntax.size(); ++id) {
      if (facts.syntax.Is(id, Kind::kIdentifier) &&
          facts.syntax.Text(id).find(word) != std::string_view::npos)
        return true;
    }
  }
  return false;
}

// True if no file of the project speaks of autocast, and no framework runs the model under one.
bool NobodyCasts(const FileFacts& facts) {
  const ProjectFacts& project = facts.project;
  if (project.apex || project.deepspeed || project.accelerate || project.lightning ||
      project.casts_models)
    return false;
  return std::none_of(facts.files->begin(), facts.files->end(),
                      [](const FileFacts* file) { return Mentions(*file, {"autocast"}); });
}

// A training that imports what is not seen, switched by an FP16 option, in a project without
// autocast. One that casts by itself (float16, half) has its own rules.
// FSDP's scaler goes with FSDP's own 16-bit parameters.
bool Guess(const FileFacts& facts, Sink& sink) {
  if (!Mentions(facts, {"fp16"}) || Mentions(facts, {"float16", "half"}) || !UsesDevice(facts) ||
      !facts.scalers.Has(ScalerCall::Op::kScale) || !facts.scalers.Has(ScalerCall::Op::kStep) ||
      !NobodyCasts(facts))
    return false;
  bool told = false;
  for (const ScalerMade& made : facts.scalers.made()) {
    if (made.enabled_false ||
        facts.names.Callee(made.call).find("Sharded") != std::string_view::npos)
      continue;
    told = true;
    MarkGuess(sink.Add(made.call,
                       "The loss is scaled, and nothing in this project runs under autocast: "
                       "unless other code does it, training is FP32 with a scaler."));
  }
  return told;
}

// The function that scales calls its model itself and enters no region: what autocast there is
// elsewhere need not be entered here.
void GuessLoop(const FileFacts& facts, Sink& sink) {
  if (!facts.scalers.Has(ScalerCall::Op::kScale) || facts.project.accelerate ||
      facts.project.lightning || facts.project.deepspeed)
    return;
  for (const ScalerCall& scale : facts.scalers.calls()) {
    if (scale.op != ScalerCall::Op::kScale) continue;
    const NodeId function = facts.syntax.FunctionOf(scale.call);
    bool enters = HoldsAny(facts.syntax.Text(function), {"amp_ctx", "autocast_ctx", "precision_"});
    for (const struct Autocast& region : facts.regions.all()) {
      enters =
          enters || facts.syntax.FunctionOf(region.node) == function || region.owner == function;
    }
    if (enters) continue;
    for (const ModelCall& model : FindModelCalls(facts)) {
      if (model.node > scale.call || facts.syntax.FunctionOf(model.node) != function) continue;
      MarkGuess(sink.Add(scale.call,
                         "The loss is scaled, and this function enters no autocast region: unless "
                         "the model enters one by itself, training is FP32 with a scaler."));
      return;
    }
  }
}

// The function that scales enters regions, and all of them are switched off.
void GuessDisabled(const FileFacts& facts, Sink& sink) {
  const std::vector<struct Autocast>& regions = facts.regions.all();
  for (const ScalerCall& scale : facts.scalers.calls()) {
    if (scale.op != ScalerCall::Op::kScale) continue;
    const NodeId function = facts.syntax.FunctionOf(scale.call);
    const struct Autocast* off = nullptr;
    bool on = false;
    for (const struct Autocast& region : regions) {
      if (facts.syntax.FunctionOf(region.node) != function) continue;
      on = on || region.enabled != Tri::kNo;
      if (region.node < scale.call && off == nullptr) off = &region;
    }
    if (on || off == nullptr || facts.regions.NoGradAt(off->owner)) continue;
    MarkGuess(sink.Add(off->node,
                       "Autocast is switched off here, in a function that scales its loss: "
                       "training is FP32 with a scaler."));
    return;
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (facts.scalers.Has(ScalerCall::Op::kScale)) GuessDisabled(facts, sink);
  if (facts.project.lowers_precision || !facts.scalers.Has(ScalerCall::Op::kScale) ||
      !facts.scalers.Has(ScalerCall::Op::kStep) || ImportsUnknown(facts) || !UsesDevice(facts)) {
    if (!Guess(facts, sink)) GuessLoop(facts, sink);
    return;
  }
  for (const ScalerMade& made : facts.scalers.made()) {
    if (!made.enabled_false) sink.Add(made.call);
  }
}

}  // namespace mpnanny::static_check::scaler_without_autocast
