#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::log_of_softmax {

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.sixteen_bit) return;
  ForEachTorchCall(facts, {"log"}, [&](const TorchCall& call) {
    if (call.is_method && !facts.names.Arguments(call.node).empty()) return;  // logger.log(…)
    const auto softmax = TracedCall(facts, call.tensor, {"softmax"});
    if (!softmax || !MayTrain(facts, call.node)) return;
    // Who asks for FP32 by name has thought of it; it takes logits 104 apart to fail.
    const NodeId dtype = facts.names.Argument(softmax->node, -1, "dtype");
    if (dtype != kNoNode && facts.names.Resolve(dtype).starts_with("torch.float32")) return;
    sink.Add(call.node);
  });
}

}  // namespace mpnanny::check::log_of_softmax
