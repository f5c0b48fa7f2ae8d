#include "engines/check/candidates/training_hazards.h"

#include <algorithm>
#include <string>

#include "engines/check/facts/autograd_functions.h"
#include "engines/check/facts/half_models.h"
#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check {
namespace {

// As in find_candidates.cc: they order, nothing is claimed with them.
constexpr double kLikely = 0.55, kPossible = 0.45, kSeldom = 0.3;

void OfRegions(const FileFacts& facts, std::vector<TrainingHazard>* found) {
  for (const Autocast& region : facts.regions.all()) {
    if (region.foreign || region.enabled == Tri::kNo) continue;
    if (!region.dtype_given && facts.project.bf16_autocast) {
      found->push_back({region.node, "autocast-no-dtype",
                        "this autocast takes its device's default dtype, FP16 on CUDA",
                        "autocast without dtype", "which dtype the project means to train in",
                        "Other places of the project name BF16: should this one?", kPossible});
    }
    if (region.enabled == Tri::kYes && facts.project.grad_scaler &&
        std::any_of(facts.scalers.made().begin(), facts.scalers.made().end(),
                    [](const ScalerMade& made) { return made.enabled_given; })) {
      found->push_back({region.node, "autocast-always-on",
                        "autocast is always on here, and the scaler has a switch",
                        "autocast without enabled=", "whether the switch means both",
                        "Should it take the scaler's switch?", kSeldom});
    }
  }
}

void OfScalers(const FileFacts& facts, std::vector<TrainingHazard>* found) {
  for (const ScalerMade& made : facts.scalers.made()) {
    if (made.enabled_false) continue;
    const bool all_fp16 =
        !facts.regions.all().empty() &&
        std::all_of(facts.regions.all().begin(), facts.regions.all().end(),
                    [](const Autocast& region) { return region.dtype == HalfType::kFp16; });
    if (!made.enabled_given && !all_fp16 &&
        (facts.project.bf16_autocast || facts.project.other_autocast)) {
      found->push_back({made.call, "scaler-with-bf16",
                        "the scaler is always on, and autocast is not always FP16",
                        "GradScaler without enabled=", "whether a run can be BF16 or FP32",
                        "Is it on only where autocast is FP16?", kPossible});
    } else if (facts.regions.all().empty() && !facts.project.trains_under_autocast) {
      found->push_back({made.call, "scaler-without-autocast",
                        "the loss is scaled, and no autocast stands in this file", "GradScaler",
                        "whether anything runs in FP16",
                        "Does the forward pass run under FP16 autocast?", kPossible});
    }
  }
}

// What reads or limits gradients where a scaler is at work and no unscale_() stands before it.
void OfGradients(const FileFacts& facts, std::vector<TrainingHazard>* found) {
  const auto unscaled_before = [&](NodeId node) {
    const NodeId function = facts.syntax.FunctionOf(node);
    return std::any_of(facts.scalers.calls().begin(), facts.scalers.calls().end(),
                       [&](const ScalerCall& call) {
                         return call.op == ScalerCall::Op::kUnscale && call.call < node &&
                                facts.syntax.FunctionOf(call.call) == function;
                       });
  };
  if (!facts.project.grad_scaler) return;
  for (const std::string_view name :
       {"clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "get_total_norm"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (unscaled_before(call->node)) continue;
      found->push_back({call->node, "clip-before-unscale",
                        "gradients are limited while they may carry the loss scale",
                        "no unscale_() stands before it in this function",
                        "whether the loss was scaled, and who unscales",
                        "Does scaler.unscale_(optimizer) run first on every path?", kLikely});
    }
  }
}

// backward() of a loss that no scaler has scaled, where autocast may be FP16.
void OfBackward(const FileFacts& facts, std::vector<TrainingHazard>* found) {
  const ProjectFacts& project = facts.project;
  if (!(project.fp16_on_cuda || project.other_autocast || project.grad_scaler) ||
      project.scaling_elsewhere)
    return;
  for (const Call* call : facts.names.CallsNamed("backward")) {
    if (call->receiver == kNoNode || !facts.scalers.ScaledBy(call->receiver).empty()) continue;
    const NodeId loss = Traced(facts, call->receiver);
    if (!facts.scalers.ScaledBy(loss).empty() || facts.syntax.Is(call->receiver, Kind::kCall))
      continue;
    const bool scaler = project.grad_scaler;
    found->push_back({call->node, scaler ? "backward-unscaled" : "fp16-autocast-without-scaler",
                      scaler ? "this backward() is plain, and other code of the project scales"
                             : "autocast may be FP16 here, and nothing scales the loss",
                      "a plain backward()", "whether the forward pass ran in FP16",
                      "In FP16 gradients below 6e-8 are zero: is the loss scaled?",
                      scaler ? kSeldom : kLikely});
  }
}

void OfWeights(const FileFacts& facts, std::vector<TrainingHazard>* found) {
  const bool trains = !facts.names.CallsNamed("backward").empty() ||
                      !facts.names.CallsNamed("step").empty() || facts.project.hf_trainer ||
                      !facts.names.CallsNamed("train").empty();
  for (const WeightCast& cast : FindWeightCasts(facts)) {
    if (cast.type == HalfType::kUnknown) continue;
    const bool fp16 = cast.type == HalfType::kFp16;
    const bool scaler = fp16 && facts.project.grad_scaler;
    found->push_back(
        {cast.node,
         scaler ? "fp16-weights-with-scaler"
         : fp16 ? "half-params-optimizer"
                : "bf16-params-optimizer",
         scaler ? "weights are FP16 here; a GradScaler refuses FP16 gradients"
                : "cast to 16 bits: of weights that an optimizer trains, updates under half an "
                  "ulp are lost",
         cast.loaded ? "loaded in 16 bits" : "cast to 16 bits",
         "whether an optimizer trains them, and whether it keeps FP32 copies",
         "Are these weights trained? Then keep them in FP32 and use autocast.",
         trains ? kLikely : kSeldom});
  }
}

void OfFunctions(const FileFacts& facts, std::vector<TrainingHazard>* found) {
  for (const AutogradFunction& function : FindAutogradFunctions(facts)) {
    if (function.custom_fwd && function.custom_bwd) continue;
    found->push_back(
        {function.custom_fwd ? function.backward : function.forward,
         "custom-function-no-custom-fwd",
         "an autograd.Function under autocast: backward() runs without it, and what autocast casts "
         "in forward() differs in type from what was saved",
         function.custom_fwd ? "backward without custom_bwd" : "forward without custom_fwd",
         "whether it is called under autocast",
         "Do forward and backward work in one type, whatever they are handed?",
         FirstCastOperation(facts, function.klass) != kNoNode ? kLikely : kSeldom});
  }
}

}  // namespace

std::vector<TrainingHazard> FindTrainingHazards(const FileFacts& facts) {
  std::vector<TrainingHazard> found;
  OfRegions(facts, &found);
  OfScalers(facts, &found);
  OfGradients(facts, &found);
  OfBackward(facts, &found);
  OfWeights(facts, &found);
  OfFunctions(facts, &found);
  return found;
}

}  // namespace mpnanny::check
