#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "engines/check/facts/half_models.h"
#include "engines/check/facts/precision_setup.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::fp16_weights_with_scaler {

// The variable that a call trains: Trainer(model=…), optimizer of its parameters; "" for others.
static std::string Trained(const FileFacts& facts, const Call& one) {
  const std::string_view name = one.name;
  const NodeId call = one.node;
  const bool trainer = one.callee.starts_with("transformers.") || one.callee.starts_with("trl.");
  if ((trainer && name.ends_with("Trainer")) || (facts.project.lightning && one.method == "fit"))
    return facts.names.Key(facts.names.Argument(call, 0, "model"));
  const NodeId parameters = facts.names.Argument(call, 0, "params");
  if (facts.names.Method(parameters) != "parameters") return "";
  const bool optimizer =
      one.callee.starts_with("torch.optim.") || one.callee.starts_with("bitsandbytes.optim.");
  return optimizer ? facts.names.Key(facts.names.Receiver(parameters)) : "";
}

// True if the model is frozen, as one beside an adapter or a student is.
static bool IsFrozen(const FileFacts& facts, const std::string& model) {
  const auto calls = facts.names.CallsNamed("requires_grad_");
  return std::any_of(calls.begin(), calls.end(), [&](const Call* call) {
    return facts.names.Key(call->receiver) == model &&
           facts.syntax.Is(facts.names.Argument(call->node, 0, "requires_grad"), Kind::kFalse);
  });
}

// True where DeepSpeed scales the loss, which keeps FP32 copies of 16-bit weights, or where nothing
// is trained at all.
static bool NeedsNoFp32(const FileFacts& facts) {
  const auto arguments = facts.names.CallsNamed("TrainingArguments");
  if (facts.project.deepspeed ||
      std::any_of(arguments.begin(), arguments.end(), [&](const Call* call) {
        return facts.names.Argument(call->node, -1, "deepspeed") != kNoNode;
      }))
    return true;
  return facts.names.CallsNamed("train").empty() && facts.names.CallsNamed("fit").empty() &&
         facts.names.CallsNamed("backward").empty();
}

// True if the call makes torch's own GradScaler, always on: FSDP's ShardedGradScaler takes FP16
// gradients.
static bool IsPlainScaler(const FileFacts& facts, const std::string& key) {
  const auto& all = facts.scalers.made();
  return std::any_of(all.begin(), all.end(), [&](const ScalerMade& made) {
    const std::string& callee = facts.names.Callee(made.call);
    return made.key == key && !made.enabled_given && callee.starts_with("torch.") &&
           callee.ends_with(".amp.GradScaler");
  });
}

// step() or unscale_() of a scaler on an optimizer of weights that were cast to FP16: the first one
// raises.
static void CheckSteps(const FileFacts& facts, Sink& sink) {
  if (!facts.scalers.Has(ScalerCall::Op::kScale)) return;
  const auto optimizers = FindHalfOptimizers(facts);
  for (const HalfOptimizer& found : optimizers) {
    const std::string key = OptimizerVariable(facts, found.call);
    if (found.type != HalfType::kFp16 || found.loaded || found.some || key.empty()) continue;
    for (const ScalerCall& call : facts.scalers.calls()) {
      const bool uses = call.op == ScalerCall::Op::kStep || call.op == ScalerCall::Op::kUnscale;
      const bool same =
          key.starts_with("self.")
              ? facts.syntax.Enclosing(call.call, Kind::kClass) ==
                    facts.syntax.Enclosing(found.call, Kind::kClass)
              : facts.syntax.FunctionOf(call.call) == facts.syntax.FunctionOf(found.call);
      if (!uses || call.optimizer != key || !same) continue;
      RawFinding& finding =
          sink.Add(call.call, "The weights of " + found.model +
                                  " are FP16, and so are their gradients, which " + call.scaler +
                                  " refuses: ValueError.");
      if (!IsPlainScaler(facts, call.scaler) || !IsPlainlyTrained(facts, found))
        finding.form = "switchable";
      break;  // nothing that follows can happen
    }
  }
}

void Check(const FileFacts& facts, Sink& sink) {
  CheckSteps(facts, sink);
  if (NeedsNoFp32(facts)) return;
  const std::vector<PrecisionSetup> setups = FindPrecisionSetups(facts);
  const PrecisionSetup* scaled = nullptr;
  for (const PrecisionSetup& setup : setups) {
    if (setup.type == HalfType::kFp16) scaled = &setup;
  }
  if (scaled == nullptr || TrainsAdapters(facts)) return;
  const std::vector<WeightCast> casts = FindWeightCasts(facts);
  if (casts.empty()) return;
  std::set<NodeId> reported;
  for (const Call& call : facts.names.calls()) {
    const std::string model = Trained(facts, call);
    if (model.empty()) continue;
    const WeightCast* last = CastAt(facts, casts, model, call.node);
    if (last == nullptr || last->type == HalfType::kUnknown || IsFrozen(facts, model)) continue;
    // With torch.optim over a model that was cast it is half-params-optimizer.
    if (!last->loaded && call.callee.starts_with("torch.optim.")) continue;
    if (!reported.insert(last->origin).second) continue;
    const bool fp16 = last->type == HalfType::kFp16;
    RawFinding& finding = sink.Add(
        last->origin, std::string("The weights of ") + model + (fp16 ? " are FP16" : " are BF16") +
                          " here, and they are trained with FP16 loss scaling.");
    if (!fp16) finding.form = "bf16";
    if (scaled->by == PrecisionSetup::By::kScaler &&
        facts.names.Argument(scaled->call, -1, "enabled") != kNoNode)
      finding.confidence = "medium";
  }
}

}  // namespace mpnanny::check::fp16_weights_with_scaler
