#include <algorithm>
#include <string>

#include "engines/check/candidates/training_hazards.h"
#include "engines/check/facts/autograd_functions.h"
#include "engines/check/facts/half_models.h"
#include "engines/check/facts/precision_setup.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check {
namespace {

void OfOptimizers(const FileFacts& facts, std::vector<TrainingHazard>* found) {
  for (const HalfOptimizer& one : FindHalfOptimizers(facts)) {
    if (one.type != HalfType::kFp16) continue;  // bf16-params-optimizer reports it
    found->push_back({one.call, "half-params-optimizer",
                      "the optimizer is given weights that were made FP16: updates below 2^-11 of "
                      "a weight are lost",
                      "FP16 weights in an optimizer", "whether it keeps FP32 copies",
                      "Are these weights trained? Then keep them in FP32 and use autocast.",
                      kLikely});
  }
}

void OfFunctions(const FileFacts& facts, std::vector<TrainingHazard>* found) {
  for (const AutogradFunction& function : FindAutogradFunctions(facts)) {
    // One that casts, or asks whether autocast is on, minds its dtypes itself.
    const bool neither = !function.custom_fwd && !function.custom_bwd;
    // A checkpoint by hand runs the forward pass again.
    const bool recomputes = neither && NamesAny(facts, function.backward, {"enable_grad"});
    if ((function.custom_fwd && function.custom_bwd) ||
        (neither && !recomputes &&
         (FirstCastOperation(facts, function.forward) == kNoNode ||
          FirstCastOperation(facts, function.backward) == kNoNode ||
          NamesAny(facts, function.klass, {"autocast", "dtype", "float", "half", "type_as"}))))
      continue;
    found->push_back(
        {function.custom_fwd ? function.backward : function.forward,
         "custom-function-no-custom-fwd",
         "an autograd.Function under autocast: backward() runs without it, and what autocast casts "
         "in forward() differs in type from what was saved",
         function.custom_fwd ? "backward without custom_bwd" : "forward without custom_fwd",
         "whether it is called under autocast",
         "Do forward and backward work in one type, whatever they are handed?",
         neither ? kPossible : kLikely});
  }
}

// What becomes of weights and buffers on their way through defaults, checkpoints and devices.
void OfStates(const FileFacts& facts, std::vector<TrainingHazard>* found) {
  for (const Call* call : facts.names.CallsNamed("set_default_dtype")) {
    const NodeId type = facts.names.Argument(call->node, 0, "d");
    const auto others = facts.names.CallsNamed("set_default_dtype");
    const bool set_back = std::any_of(others.begin(), others.end(), [&](const Call* other) {
      return other->node > call->node &&
             facts.syntax.FunctionOf(other->node) == facts.syntax.FunctionOf(call->node);
    });
    if (!call->callee.starts_with("torch.") || type == kNoNode || set_back ||
        facts.regions.ReadHalfType(type) == HalfType::kUnknown)
      continue;
    found->push_back({call->node, "default-dtype-half",
                      "16 bits become the default of every new tensor", "set_default_dtype()",
                      "whether it is set back before the training",
                      "Are weights, optimizer states and sums meant to be 16-bit?", kPossible});
  }
  for (const Call* call : facts.names.CallsNamed("save")) {
    if (call->callee != "torch.save") continue;
    const NodeId dict = SavedTraining(facts, call->node);
    if (dict == kNoNode) continue;
    for (const Call* half : facts.names.CallsNamed("half")) {
      if (half->method.empty() || !IsInside(facts, half->node, dict)) continue;
      found->push_back({half->node, "half-checkpoint-resume",
                        "the checkpoint holds FP16 weights beside the optimizer's state",
                        "half() of what is saved", "whether training resumes from it",
                        "Is it for inference only?", kLikely});
    }
  }
  for (const Call* call : facts.names.CallsNamed("to_empty")) {
    const bool lost =
        std::any_of(facts.files->begin(), facts.files->end(), [](const FileFacts* file) {
          const auto buffers = file->names.CallsNamed("register_buffer");
          return std::any_of(buffers.begin(), buffers.end(), [&](const Call* buffer) {
            return file->syntax.Is(file->names.Argument(buffer->node, 2, "persistent"),
                                   Kind::kFalse);
          });
        });
    // net.reset_buffers() behind it may fill them.
    const std::string model = facts.names.Key(call->receiver);
    const bool refilled =
        std::any_of(facts.names.calls().begin(), facts.names.calls().end(), [&](const Call& other) {
          return other.node > call->node && !other.method.empty() && !model.empty() &&
                 facts.syntax.FunctionOf(other.node) == facts.syntax.FunctionOf(call->node) &&
                 facts.names.Key(other.receiver) == model && other.method != "load_state_dict" &&
                 other.method != "train" && other.method != "eval" && other.method != "to" &&
                 other.method != "cuda" && other.method != "parameters";
        });
    if (call->method.empty() || !lost || refilled) continue;
    found->push_back({call->node, "buffer-lost-by-to-empty",
                      "to_empty() leaves buffers with persistent=False as memory that was never "
                      "written: no checkpoint brings them back",
                      "the project registers such a buffer", "whether anything fills it again",
                      "What gives the buffers their values after this line?", kLikely, true});
  }
}

// Quantised layers that compute in another 16-bit type than the training.
void OfQuantisation(const FileFacts& facts, std::vector<TrainingHazard>* found) {
  const auto configs = facts.names.CallsNamed("BitsAndBytesConfig");
  if (configs.empty()) return;
  for (const PrecisionSetup& setup : FindPrecisionSetups(facts)) {
    for (const Call* call : configs) {
      const NodeId given = facts.names.Argument(call->node, -1, "bnb_4bit_compute_dtype");
      if (given == kNoNode || setup.by == PrecisionSetup::By::kScaler) continue;
      HalfType type = facts.regions.ReadHalfType(given);
      if (Literal(facts, given) == "float16") type = HalfType::kFp16;
      if (Literal(facts, given) == "bfloat16") type = HalfType::kBf16;
      if (type == HalfType::kUnknown || type == setup.type) continue;
      found->push_back({given, "qlora-compute-dtype-mismatch",
                        "quantised layers compute in another 16-bit type than the training",
                        "bnb_4bit_compute_dtype", "whether both belong to one run",
                        "Is it the type of the training?", kLikely});
    }
  }
}

// Switches that lower the precision of FP32, and tools that torch has replaced.
void OfSwitches(const FileFacts& facts, std::vector<TrainingHazard>* found) {
  const auto tf32 = [&](NodeId node) {
    found->push_back({node, "allow-tf32",
                      "TF32 keeps 11 bits of FP32's 24 in products, also where FP32 is meant as "
                      "the safe place",
                      "TF32 is switched on", "what is kept in FP32 for its precision",
                      "Do losses, norms or positions multiply matrices in FP32?", kSeldom, true});
  };
  for (const NodeId id : facts.assignments) {
    const NodeId target = facts.syntax.Child(id, PythonFields().left);
    if (!facts.syntax.Is(facts.syntax.Child(id, PythonFields().right), Kind::kTrue) ||
        !facts.syntax.Is(target, Kind::kAttribute))
      continue;
    const std::string name = facts.names.Resolve(target);
    if (LastComponent(name) == "allow_tf32") tf32(id);
  }
  for (const Call* call : facts.names.CallsNamed("set_float32_matmul_precision")) {
    const std::string_view level = Literal(facts, facts.names.Argument(call->node, 0, "precision"));
    if (level == "high" || level == "medium") tf32(call->node);
  }
  for (const std::string_view name : {"set_detect_anomaly", "detect_anomaly"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      const NodeId on = facts.names.Argument(call->node, 0, "mode");
      if (!call->callee.starts_with("torch.autograd.") || !facts.project.grad_scaler ||
          (name == "set_detect_anomaly" && !facts.syntax.Is(on, Kind::kTrue)))
        continue;
      found->push_back({call->node, "detect-anomaly-on",
                        "anomaly mode raises at each overflow that the scaler would skip",
                        "anomaly mode is on, beside a GradScaler", "whether it is for debugging",
                        "Does it stay on in a whole run?", kPossible});
    }
  }
  for (const std::string_view name : {"initialize", "FP16_Optimizer"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (!call->callee.starts_with("apex.")) continue;
      found->push_back({call->node, "apex-amp",
                        "apex.amp is not maintained any more, and torch has autocast and "
                        "GradScaler of its own",
                        "apex's mixed precision", "which parts of it the training needs",
                        "Can torch.amp take its place?", kSeldom});
    }
  }
}

}  // namespace

void AddWeightHazards(const FileFacts& facts, std::vector<TrainingHazard>* found) {
  OfOptimizers(facts, found);
  OfFunctions(facts, found);
  OfStates(facts, found);
  OfQuantisation(facts, found);
  OfSwitches(facts, found);
}

}  // namespace mpnanny::check
