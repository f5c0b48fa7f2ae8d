#include "engines/check/candidates/training_hazards.h"

#include <algorithm>
#include <set>
#include <string>

#include "engines/check/facts/model_calls.h"
#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check {
namespace {

bool HasLiteralDtype(const Autocast& region) {
  return region.dtype_given && region.dtype != HalfType::kUnknown;
}

void OfRegions(const FileFacts& facts, std::vector<TrainingHazard>* found) {
  const std::vector<Autocast>& regions = facts.regions.all();
  const bool configured = std::any_of(regions.begin(), regions.end(), [&](const Autocast& one) {
    return !one.foreign && one.dtype_given && one.dtype == HalfType::kUnknown &&
           !facts.names.Resolve(facts.names.Argument(facts.bindings.ValueOf(one.node), 1, "dtype"))
                .starts_with("torch.");
  });
  for (const Autocast& region : regions) {
    if (region.foreign || region.enabled == Tri::kNo) continue;
    if (configured && HasLiteralDtype(region) && region.device != Device::kCpu) {
      found->push_back({region.node, "autocast-literal-beside-config",
                        "this region names its dtype, and another one takes it from a setting",
                        "a dtype that is written here", "what the setting can be",
                        "With the other format set, does a step run in both?", kPossible});
    }
    if (!region.dtype_given && facts.project.bf16_autocast && region.device != Device::kCpu &&
        !HasSplat(facts, facts.bindings.ValueOf(region.node))) {
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

// backward() and step() in the body of an autocast region.
void InRegions(const FileFacts& facts, std::vector<TrainingHazard>* found) {
  const auto in_region = [&](const Call& call) {
    const Autocast* const region = facts.regions.At(call.node);
    return region != nullptr && region->enabled != Tri::kNo &&
           !IsInside(facts, call.node, region->node);
  };
  for (const Call* call : facts.names.CallsNamed("backward")) {
    if (call->method.empty() || !in_region(*call)) continue;
    found->push_back({call->node, "backward-in-autocast",
                      "backward() runs inside the region: each operator has its own type anyway, "
                      "and torch advises against it",
                      "backward() under autocast", "whether own Functions compute in it",
                      "Can the region end with the loss?", kSeldom});
  }
  for (const Call* call : facts.names.CallsNamed("step")) {
    const std::string key = facts.names.Key(call->receiver);
    if (!in_region(*call) || !(facts.scalers.IsOptimizer(key) || facts.scalers.IsScaler(key)))
      continue;
    found->push_back({call->node, "step-in-autocast",
                      "an optimizer's step runs inside the region: its products are cast",
                      "step() under autocast", "whether the optimizer multiplies matrices",
                      "Can the region end before the step?", kSeldom});
  }
}

// What a model is called under.
void OfModelCalls(const FileFacts& facts, std::vector<TrainingHazard>* found) {
  const std::vector<ModelCall> calls = FindModelCalls(facts);
  for (const ModelCall& first : calls) {
    const Autocast* const region = facts.regions.At(first.node);
    if (region == nullptr || region->enabled == Tri::kNo) continue;
    const bool parallel = std::any_of(
        facts.names.CallsNamed("DataParallel").begin(),
        facts.names.CallsNamed("DataParallel").end(), [&](const Call* call) {
          const NodeId parent = facts.syntax[call->node].parent;
          return facts.syntax.Is(parent, Kind::kAssignment) &&
                 facts.names.Key(facts.syntax.Child(parent, PythonFields().left)) == first.key;
        });
    if (parallel && region->dtype == HalfType::kBf16 && region->device != Device::kCpu) {
      found->push_back({first.node, "autocast-with-dataparallel",
                        "DataParallel's replicas run in threads of their own, whose autocast is "
                        "FP16, whatever the dtype here",
                        "DataParallel under BF16 autocast", "on how many devices it runs",
                        "Is it one process a device (DistributedDataParallel) instead?", kLikely});
    }
    if (!region->caches || !facts.regions.NoGradAt(first.node)) continue;
    // The other branch of a condition does not follow.
    const NodeId block = facts.syntax.Enclosing(first.node, Kind::kBlock);
    const NodeId branch = facts.syntax.Enclosing(first.node, Kind::kIf);
    const bool branches = branch != kNoNode && IsInside(facts, block, branch);
    const bool trained = std::any_of(calls.begin(), calls.end(), [&](const ModelCall& second) {
      return second.node > first.node && second.key == first.key &&
             facts.regions.At(second.node) == region && !facts.regions.NoGradAt(second.node) &&
             !(branches && IsInside(facts, second.node, branch) &&
               !IsInside(facts, second.node, block));
    });
    if (!trained) continue;
    found->push_back({first.node, "autocast-cache-no-grad",
                      "the casts that autocast keeps from this pass have no history: before torch "
                      "2.13 the pass with gradients takes them, and these weights get none",
                      "the model runs without gradients and with them in one region",
                      "which torch it is, and whether both run in one step",
                      "Has each pass a region of its own, or cache_enabled=False?", kLikely});
  }
}

void OfScalers(const FileFacts& facts, std::vector<TrainingHazard>* found) {
  const auto made_of = [&](std::string_view name, std::string_view module) {
    const auto calls = facts.names.CallsNamed(name);
    return std::any_of(calls.begin(), calls.end(),
                       [&](const Call* call) { return call->callee.starts_with(module); });
  };
  const bool sharded = made_of("FullyShardedDataParallel", "torch.distributed.fsdp.") &&
                       !made_of("DistributedDataParallel", "torch.nn.parallel.") &&
                       !made_of("ShardedGradScaler", "torch.distributed.fsdp.");
  for (const ScalerMade& made : facts.scalers.made()) {
    if (made.enabled_false) continue;
    if (sharded) {
      found->push_back({made.call, "fsdp-plain-scaler",
                        "FSDP shards gradients, and a plain GradScaler looks at one rank's only: "
                        "ranks skip different steps",
                        "GradScaler beside FSDP", "whether both are used in one run",
                        "Is it torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler?",
                        kLikely});
    }
    const bool all_fp16 =
        !facts.regions.all().empty() &&
        std::all_of(facts.regions.all().begin(), facts.regions.all().end(),
                    [](const Autocast& region) { return region.dtype == HalfType::kFp16; });
    // `GradScaler() if dtype == torch.float16 else None` asks.
    const bool chosen = facts.syntax.Is(facts.syntax[made.call].parent, Kind::kConditional);
    if (!made.enabled_given && !chosen && !all_fp16 &&
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

// What the order of the scaler's calls shows, and what depends on who reads it.
void OfOrder(const FileFacts& facts, std::vector<TrainingHazard>* found) {
  std::set<std::string> optimizers;
  for (const ScalerCall& call : facts.scalers.calls()) {
    if (!call.optimizer.empty()) optimizers.insert(call.optimizer);
  }
  for (const Violation& violation : facts.scaler_order->violations()) {
    if (violation.kind == Violation::Kind::kGradientsRead) {
      found->push_back({violation.node, "grad-access-before-unscale",
                        "gradients are read while they carry the loss scale",
                        "no unscale_() between backward() and this line",
                        "whether what reads them minds the scale",
                        "Does a limit, a norm or a log mean true gradients?", kLikely});
    } else if (violation.kind == Violation::Kind::kScaleAfterUpdate) {
      found->push_back({violation.node, "scale-read-after-update",
                        "a scaled value is divided by the scale of after update(): 2 times off "
                        "where update() has changed it",
                        "update() stands between", "what the value is used for",
                        "Is the scale read before update()?", kLikely});
    } else if (violation.kind == Violation::Kind::kMixedScales && optimizers.size() == 1) {
      found->push_back({violation.node, "multiple-scalers",
                        "gradients of losses that two scalers have scaled are added up",
                        "two scalers, one optimizer", "whether both reach the same parameters",
                        "Would one scaler for both losses do?", kLikely});
    }
  }
}

// A name that holds the scaled loss, and is read as if it were the loss.
void OfScaledLosses(const FileFacts& facts, std::vector<TrainingHazard>* found) {
  const Syntax& syntax = facts.syntax;
  const auto is_read = [&](NodeId use) {
    const NodeId up = syntax[use].parent;
    if (!syntax.Is(up, Kind::kAttribute)) {
      return syntax.Is(up, Kind::kReturn) ||
             (syntax.Is(up, Kind::kExpressionList) && syntax.Is(syntax[up].parent, Kind::kReturn));
    }
    const std::string_view method = syntax.Text(syntax.Child(up, PythonFields().attribute));
    return method == "item" || method == "detach" || method == "cpu";
  };
  for (const ScalerCall& scale : facts.scalers.calls()) {
    const NodeId assignment = syntax[scale.call].parent;
    if (scale.op != ScalerCall::Op::kScale || !syntax.Is(assignment, Kind::kAssignment)) continue;
    const NodeId target = syntax.Child(assignment, PythonFields().left);
    const NodeId function = syntax.FunctionOf(scale.call);
    bool trained = false;
    for (const NodeId use : facts.names.Uses(syntax.Text(target))) {
      if (use < syntax[assignment].after || syntax.FunctionOf(use) != function) continue;
      const NodeId up = syntax[use].parent;
      trained = trained || (syntax.Is(up, Kind::kAttribute) &&
                            facts.names.Method(syntax[up].parent) == "backward");
      if (!trained || !is_read(use)) continue;
      found->push_back({use, "scaled-loss-read",
                        "this is the scaled loss, 65536 times the loss at the start",
                        "scaler.scale() gave it", "what it is shown or compared as",
                        "Is it divided by the scale again, or meant as the loss?", kLikely});
      break;
    }
  }
}

// Gradients of gradients, and gradients on their way between ranks.
void OfGradientTraffic(const FileFacts& facts, std::vector<TrainingHazard>* found) {
  for (const Call* call : facts.names.CallsNamed("grad")) {
    const NodeId function = facts.syntax.FunctionOf(call->node);
    const bool knows_scale = std::any_of(facts.scalers.calls().begin(), facts.scalers.calls().end(),
                                         [&](const ScalerCall& one) {
                                           return one.op == ScalerCall::Op::kGetScale &&
                                                  facts.syntax.FunctionOf(one.call) == function;
                                         });
    if (call->callee != "torch.autograd.grad" || knows_scale ||
        !facts.syntax.Is(facts.names.Argument(call->node, -1, "create_graph"), Kind::kTrue) ||
        !(facts.project.grad_scaler || facts.project.fp16_on_cuda) ||
        !facts.scalers.ScaledBy(facts.names.Argument(call->node, 0, "outputs")).empty())
      continue;
    found->push_back(
        {call->node, "gradient-penalty-unscaled",
         "gradients are taken of FP16 outputs that no scale protects: below 6e-8 "
         "they are zero",
         "autograd.grad(create_graph=True) without scaler.scale()", "how small these gradients are",
         "Are the outputs scaled first, and the gradients divided by get_scale()?", kLikely});
  }
  for (const std::string_view name : {"MixedPrecision", "MixedPrecisionPolicy"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      const NodeId reduce = facts.names.Argument(call->node, 1, "reduce_dtype");
      if (!call->callee.starts_with("torch.distributed.") || reduce == kNoNode ||
          facts.regions.ReadHalfType(reduce) == HalfType::kUnknown)
        continue;
      found->push_back({call->node, "fsdp-half-reduce",
                        "FSDP averages gradients over the ranks in 16 bits",
                        "a 16-bit reduce_dtype", "how many ranks there are",
                        "Is reduce_dtype=torch.float32 affordable?", kPossible});
    }
  }
  for (const Call* call : facts.names.CallsNamed("register_comm_hook")) {
    const NodeId hook = facts.names.Argument(call->node, 1, "hook");
    const std::string resolved = facts.names.Resolve(hook);
    const std::string_view name = LastComponent(resolved);
    if (name != "fp16_compress_hook" && name != "bf16_compress_hook") continue;
    found->push_back({call->node, "grad-compress-fp16",
                      "gradients are averaged over the ranks in 16 bits", "a hook that compresses",
                      "how small gradients are, and how many ranks", "Does the link need it?",
                      kPossible});
  }
}

// A step that one rank leaves out by itself, while the others wait for its gradients.
void OfRanks(const FileFacts& facts, std::vector<TrainingHazard>* found) {
  const Fields& f = PythonFields();
  const auto leaves_turn = [&](NodeId branch) {
    const std::vector<NodeId> body =
        facts.syntax.Children(facts.syntax.Child(branch, f.consequence));
    return std::any_of(body.begin(), body.end(), [&](NodeId each) {
      return facts.syntax.Is(each, Kind::kContinue) || facts.syntax.Is(each, Kind::kBreak);
    });
  };
  const auto within = [&](std::string_view name, NodeId from, NodeId to) {
    const auto calls = facts.names.CallsNamed(name);
    return std::any_of(calls.begin(), calls.end(),
                       [&](const Call* call) { return call->node >= from && call->node < to; });
  };
  if (facts.names.CallsNamed("DistributedDataParallel").empty() &&
      facts.names.CallsNamed("FullyShardedDataParallel").empty() &&
      facts.names.CallsNamed("fully_shard").empty())
    return;
  for (const std::string_view name : {"isfinite", "isnan", "isinf"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      const NodeId branch = facts.syntax.Enclosing(call->node, Kind::kIf);
      const NodeId loop = LoopOf(facts, call->node);
      if (loop == kNoNode || !IsInside(facts, branch, loop) || !leaves_turn(branch) ||
          !IsInside(facts, call->node, facts.syntax.Child(branch, f.condition)) ||
          !within("backward", facts.syntax[branch].after, facts.syntax[loop].after) ||
          within("all_reduce", loop, call->node) || within("all_gather", loop, call->node) ||
          within("broadcast", loop, call->node))
        continue;
      found->push_back({branch, "skip-on-one-rank",
                        "the rank whose value is not finite leaves out this step, and the others "
                        "wait for its gradients in backward()",
                        "each rank decides for itself", "whether the ranks agree before it",
                        "Is the decision reduced over the ranks first?", kLikely, true});
    }
  }
}

}  // namespace

std::vector<TrainingHazard> FindTrainingHazards(const FileFacts& facts) {
  std::vector<TrainingHazard> found;
  OfRegions(facts, &found);
  InRegions(facts, &found);
  OfModelCalls(facts, &found);
  OfScalers(facts, &found);
  OfOrder(facts, &found);
  OfScaledLosses(facts, &found);
  OfGradientTraffic(facts, &found);
  OfRanks(facts, &found);
  AddWeightHazards(facts, &found);
  return found;
}

}  // namespace mpnanny::check
