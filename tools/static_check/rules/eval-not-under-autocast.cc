#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/model_calls.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::eval_not_under_autocast {

namespace {

// model, self.ema_model, pipe: what is run as a whole, by its name.
bool NamesWhole(std::string_view key) {
  const std::string name = LowerCase(LastComponent(key));
  return HoldsAny(name, {"model", "net", "ema", "generator", "diffusion", "transformer", "policy",
                         "pipe", "decoder", "module", "teacher"});
}

// model(x), model.generate(x), sample(model, noise), unwrap(model).sample(x).
bool RunsModel(const FileFacts& facts, const struct Call& call) {
  const Syntax& syntax = facts.syntax;
  const bool samples = HoldsAny(call.name, {"generate", "sample", "inference", "infer", "predict",
                                            "forward_test"}) &&
                       !HoldsAny(call.name, {"log", "sampler", "samples", "resample", "eval"});
  if (call.receiver != kNoNode && samples) {
    const std::string key = facts.names.Key(call.receiver);
    if (!key.empty()) return NamesWhole(key);
    return syntax.Is(call.receiver, Kind::kCall) && NamesWhole(syntax.Text(call.receiver));
  }
  if (call.receiver == kNoNode && samples) {
    const std::vector<NodeId> arguments = facts.names.Arguments(call.node);
    return std::any_of(arguments.begin(), arguments.end(), [&](NodeId argument) {
      const std::string key = facts.names.Key(argument);
      return !key.empty() && NamesWhole(key);
    });
  }
  return false;
}

// A project that trains under autocast, and a function that only evaluates and enters no region:
// demos and samples in the middle of training, validation in another file than training.
void GuessElsewhere(const FileFacts& facts, const std::vector<ModelCall>& models,
                    const std::set<NodeId>& reported, Sink& sink) {
  const ProjectFacts& project = facts.project;
  if (!project.trains_under_autocast &&
      !((project.accelerate || project.lightning) && project.lowers_precision))
    return;
  const std::string_view text = facts.syntax.text();
  if (!HoldsAny(text, {"no_grad", "inference_mode"}) ||
      !HoldsAny(text, {"train", "optim", "Callback"}) ||
      HoldsAny(facts.path, {"inference", "demo/", "export", "deploy", "convert"}))
    return;
  std::set<NodeId> samples;
  for (const struct Call& call : facts.names.calls()) {
    if (RunsModel(facts, call)) samples.insert(call.node);
  }
  std::vector<NodeId> found(samples.begin(), samples.end());
  for (const ModelCall& call : models) found.push_back(call.node);
  std::sort(found.begin(), found.end());
  const auto backward = facts.names.CallsNamed("backward");
  std::set<NodeId> told = reported;
  for (const NodeId call : found) {
    const NodeId function = facts.syntax.FunctionOf(call);
    if (function == 0 || told.contains(function) || !facts.regions.NoGradAt(call)) continue;
    if (const Autocast* region = facts.regions.At(call); region != nullptr) {
      // Switched off around a pass that is trained under it.
      if (region->enabled != Tri::kNo || !facts.syntax.Is(region->owner, Kind::kWith)) continue;
    } else {
      Policy policy;  // of a region that a caller opened
      if (facts.dtypes->PolicyAt(call, &policy) && !policy.assumed) continue;
    }
    // A plain pass inside of training may be meant to be exact.
    if (!samples.contains(call) &&
        std::any_of(backward.begin(), backward.end(), [&](const struct Call* other) {
          return facts.syntax.FunctionOf(other->node) == function;
        }))
      continue;
    told.insert(function);
    MarkGuess(sink.Add(call,
                       "The project trains under autocast, and this pass without gradients enters "
                       "no region: it runs in FP32, slower, and fails where a kernel takes 16 "
                       "bits only."));
  }
}

// True for what measures or prepares and is no model, by its name.
bool IsNoModel(std::string_view name) {
  return HoldsAny(LowerCase(name), {"loss", "criterion", "metric", "transform", "log", "save",
                                    "load", "augment", "preprocess", "prepare", "collate", "check",
                                    "update", "eval", "train", "sched", "optim"});
}

// self.nn_module(x) under autocast where it is trained, and under no_grad without: whatever the
// module is called.
void GuessAnyName(const FileFacts& facts, std::set<NodeId>* reported, Sink& sink) {
  const Syntax& syntax = facts.syntax;
  std::set<std::string> trained;
  std::vector<ModelCall> plain;
  for (const struct Call& call : facts.names.calls()) {
    if (!call.callee.empty() || call.receiver == kNoNode || IsNoModel(call.name) ||
        facts.names.Arguments(call.node).empty() || facts.bindings.Callee(call.node) != nullptr)
      continue;
    std::string key = facts.names.Key(syntax.Child(call.node, PythonFields().function));
    if (!key.starts_with("self.") || syntax.FunctionOf(call.node) == 0) continue;
    const bool still = facts.regions.NoGradAt(call.node);
    if (facts.regions.MaybeOn(call.node) && !still) trained.insert(key);
    if (facts.regions.At(call.node) == nullptr && still)
      plain.push_back({call.node, std::move(key)});
  }
  for (const ModelCall& call : plain) {
    Policy policy;  // of a region that a caller opened
    if (!trained.contains(call.key) ||
        (facts.dtypes->PolicyAt(call.node, &policy) && !policy.assumed) ||
        !reported->insert(syntax.FunctionOf(call.node)).second)
      continue;
    MarkGuess(sink.Add(call.node, call.key + " runs under autocast where it is trained and without "
                                             "where it is evaluated: other numbers, slower, and "
                                             "inputs that are 16-bit fail."));
  }
}

// A model that is handed to what translates, scores or samples with it, in a function that
// evaluates the same model under autocast elsewhere.
void GuessHandedOn(const FileFacts& facts, std::set<NodeId>* reported, Sink& sink) {
  const Syntax& syntax = facts.syntax;
  for (const Autocast& region : facts.regions.all()) {
    const NodeId function = syntax.FunctionOf(region.owner);
    if (region.enabled == Tri::kNo || function == 0 || reported->contains(function) ||
        !syntax.Is(region.owner, Kind::kWith) || !facts.regions.NoGradAt(region.owner))
      continue;
    for (const struct Call& call : facts.names.calls()) {
      if (call.receiver == kNoNode || syntax.FunctionOf(call.node) != function ||
          facts.regions.At(call.node) != nullptr || !facts.regions.NoGradAt(call.node) ||
          !HoldsAny(call.name, {"translate", "generate", "sample", "score", "decode", "transcribe",
                                "infer", "predict", "evaluate"}))
        continue;
      const std::vector<NodeId> given = facts.names.Arguments(call.node);
      const bool model = std::any_of(given.begin(), given.end(), [&](NodeId argument) {
        const std::string key = facts.names.Key(argument);
        return !key.empty() && NamesWhole(key);
      });
      const Definition callee = facts.Callee(call.node);
      const bool enters =
          callee.function != nullptr &&
          Holds((*facts.files)[callee.module]->syntax.Text(callee.function->node), "autocast");
      if (!model || enters || !reported->insert(function).second) continue;
      MarkGuess(sink.Add(call.node,
                         "The model runs under autocast above and is handed on without here: it "
                         "computes in FP32, slower, and fails where a kernel or an input is 16 "
                         "bits."));
    }
  }
}

// A model that brings its own autocast needs none around it.
bool ModelCasts(const FileFacts& facts) {
  for (const Autocast& autocast : facts.regions.all()) {
    const NodeId function = facts.syntax.Is(autocast.owner, Kind::kFunction)
                                ? autocast.owner
                                : facts.syntax.FunctionOf(autocast.owner);
    if (function != 0 &&
        facts.syntax.Text(facts.syntax.Child(function, PythonFields().name)) == "forward")
      return true;
  }
  return false;
}

// What is trained under autocast in this file and evaluated without.
void CheckFile(const FileFacts& facts, const std::vector<ModelCall>& calls,
               std::set<NodeId>* reported, Sink& sink) {
  const std::vector<Autocast>& regions = facts.regions.all();
  const bool plain = std::any_of(regions.begin(), regions.end(), [](const Autocast& autocast) {
    return !autocast.foreign && autocast.enabled != Tri::kNo;
  });
  if (!plain) return;
  std::set<std::string> trained;  // models that run under autocast with gradients
  for (const ModelCall& call : calls) {
    if (facts.regions.MaybeOn(call.node) && !facts.regions.NoGradAt(call.node))
      trained.insert(call.key);
  }
  for (const ModelCall& call : calls) {
    if (!facts.regions.NoGradAt(call.node) || facts.regions.At(call.node) != nullptr ||
        !trained.contains(call.key))
      continue;
    Policy policy;  // of a region that a caller opened
    if (facts.dtypes->PolicyAt(call.node, &policy) && !policy.assumed) continue;
    // One note for each function; the function that trains may want an exact pass.
    const NodeId function = facts.syntax.FunctionOf(call.node);
    const bool trains = std::any_of(calls.begin(), calls.end(), [&](const ModelCall& other) {
      return facts.syntax.FunctionOf(other.node) == function && facts.regions.MaybeOn(other.node);
    });
    if (trains || !reported->insert(function).second) continue;
    sink.Add(call.node, call.key + " is trained under autocast and evaluated without it.");
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  const bool passes = HoldsAny(facts.syntax.text(), {"no_grad", "inference_mode"});
  if (!passes || ModelCasts(facts)) return;
  const std::vector<ModelCall> calls = FindModelCalls(facts);
  std::set<NodeId> reported;
  CheckFile(facts, calls, &reported, sink);
  GuessAnyName(facts, &reported, sink);
  GuessHandedOn(facts, &reported, sink);
  GuessElsewhere(facts, calls, reported, sink);
}

}  // namespace mpnanny::static_check::eval_not_under_autocast
