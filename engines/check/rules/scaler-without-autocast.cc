#include <algorithm>
#include <string_view>

#include "engines/check/rule_support.h"

namespace mpnanny::check::scaler_without_autocast {
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

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (facts.project.lowers_precision || !facts.scalers.Has(ScalerCall::Op::kScale) ||
      !facts.scalers.Has(ScalerCall::Op::kStep) || ImportsUnknown(facts) || !UsesDevice(facts))
    return;
  for (const ScalerMade& made : facts.scalers.made()) {
    if (!made.enabled_false) sink.Add(made.call);
  }
}

}  // namespace mpnanny::check::scaler_without_autocast
