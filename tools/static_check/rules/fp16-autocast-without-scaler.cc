#include <string>
#include <string_view>

#include "base/text.h"
#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::fp16_autocast_without_scaler {

// FP16 under autocast, and a plain backward() in the same function.
static void CheckRegions(const FileFacts& facts, Sink& sink) {
  bool steps = false;
  ForEachCall(facts, [&](NodeId call) {
    steps = steps || (facts.names.Method(call) == "step" &&
                      facts.scalers.IsOptimizer(facts.names.Key(facts.names.Receiver(call))));
  });
  if (!steps) return;
  ForEachCall(facts, [&](NodeId call) {
    if (facts.names.Method(call) != "backward" || !facts.names.Callee(call).empty()) return;
    if (facts.names.Argument(call, 0, "gradient") != kNoNode)
      return;  // a framework's backward(loss)
    const NodeId function = facts.syntax.FunctionOf(call);
    for (const Autocast& autocast : facts.regions.all()) {
      const bool fp16 = autocast.device == Device::kCuda && autocast.dtype == HalfType::kFp16 &&
                        !autocast.foreign;
      if (!fp16 || autocast.enabled == Tri::kNo ||
          facts.syntax.FunctionOf(autocast.node) != function)
        continue;
      if (autocast.node > call || facts.regions.NoGradAt(autocast.node)) continue;
      RawFinding& finding = sink.Add(call);
      if (autocast.enabled == Tri::kUnknown) {
        finding.confidence = "medium";
        finding.form = "switchable";
      }
      return;
    }
  });
}

// True if "float16" stands there by itself, not as a part of bfloat16.
static bool NamesFloat16(std::string_view text) {
  for (size_t at = text.find("float16"); at != std::string_view::npos;
       at = text.find("float16", at + 1)) {
    if (at == 0 || text[at - 1] != 'b') return true;
  }
  return false;
}

// loss.backward() in a file that names FP16 or autocast and no scaler: autocast may stand in
// another method, in a helper, in an option.
static void GuessUnscaled(const FileFacts& facts, Sink& sink) {
  const auto backward = facts.names.CallsNamed("backward");
  const std::string_view text = facts.syntax.text();
  if (backward.empty() || !HoldsAny(text, {"optim", ".step("})) return;
  const bool fp16 = HoldsAny(text, {"fp16", "FP16"}) || NamesFloat16(text);
  const bool chosen = HoldsAny(text, {"autocast", "amp_dtype", "forward_dtype", "param_dtype"}) &&
                      !HoldsAny(text, {"bfloat16", "bf16"});
  if (!(fp16 || chosen) ||
      HoldsAny(text, {"GradScaler", "caler.scale", "caler.step", "NativeScaler", "ccelerator",
                      "fabric", "deepspeed", "scale_loss", "manual_backward"}))
    return;
  for (const Call* call : backward) {
    if (call->receiver == kNoNode || !call->callee.empty() || !MayTrain(facts, call->node) ||
        facts.names.Argument(call->node, 0, "gradient") != kNoNode)
      continue;
    MarkGuess(
        sink.Add(call->node,
                 "This file lets FP16 be chosen and scales no loss: where it is on, gradients "
                 "below 6e-8 are zero. GradScaler(enabled=dtype == torch.float16) costs "
                 "nothing otherwise."));
    return;
  }
}

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.scaling_elsewhere) CheckRegions(facts, sink);
  if (facts.project.HasHalfChoice()) GuessUnscaled(facts, sink);
}

}  // namespace mpnanny::static_check::fp16_autocast_without_scaler
