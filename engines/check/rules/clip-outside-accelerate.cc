#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "engines/check/facts/precision_setup.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::clip_outside_accelerate {

// True if the scaler is unscaled or handled by other means somewhere in the file.
static bool UnscalesItself(const FileFacts& facts) {
  return !facts.names.CallsNamed("unscale_gradients").empty() ||
         !facts.names.CallsNamed("unscale_").empty();
}

// clip_grad_norm_(…, float("inf")) only measures.
static bool IsInfinite(const FileFacts& facts, NodeId limit) {
  const Call* const call = facts.names.CallAt(facts.syntax.Unwrap(limit));
  if (call != nullptr && call->name == "float")
    return Literal(facts, facts.names.Argument(call->node, 0, "")) == "inf";
  const std::string name = facts.names.Resolve(limit);
  return LastComponent(name) == "inf";
}

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.names.ImportsModule("accelerate") || UnscalesItself(facts)) return;
  bool chosen = false;  // the file says that there is mixed precision
  for (const Call* made : facts.names.CallsNamed("Accelerator")) {
    // FP16 is what has a scale; whatever is configured outside may be FP16.
    const NodeId given = facts.names.Argument(made->node, -1, "mixed_precision");
    const std::string_view precision = Literal(facts, given);
    if (!precision.empty() && precision != "fp16") return;
    chosen = chosen || (given != kNoNode && !facts.syntax.Is(given, Kind::kNone));
  }
  std::map<NodeId, std::string>
      backward;  // accelerator by function with accelerator.backward(loss)
  for (const Call* call : facts.names.CallsNamed("backward")) {
    std::string key = facts.names.Key(call->receiver);
    if (LastComponent(key) == "accelerator")
      backward.emplace(facts.syntax.FunctionOf(call->node), std::move(key));
  }
  if (backward.empty()) return;
  for (const std::string_view name : {"clip_grad_norm_", "clip_grad_value_"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (call->callee != "torch.nn.utils.clip_grad_norm_" &&
          call->callee != "torch.nn.utils.clip_grad_value_")
        continue;
      const auto accelerator = backward.find(facts.syntax.FunctionOf(call->node));
      if (accelerator == backward.end()) continue;
      const NodeId limit = facts.names.Argument(call->node, 1, "max_norm");
      if (IsInfinite(facts, limit)) continue;
      RawFinding& finding = sink.Add(call->node);
      // Else only whoever launches it may ask for FP16.
      finding.guess = !chosen;
      const Node& function = facts.syntax[facts.syntax.Child(call->node, PythonFields().function)];
      finding.edits.push_back(
          {{function.begin, function.end}, accelerator->second + "." + std::string(name)});
    }
  }
}

}  // namespace mpnanny::check::clip_outside_accelerate
