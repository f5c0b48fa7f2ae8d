#include "engines/check/rule_support.h"

namespace mpnanny::check::fp16_autocast_without_scaler {

// FP16 under autocast, and a plain backward() in the same function.
void Check(const FileFacts& facts, Sink& sink) {
  if (facts.project.scaling_elsewhere) return;
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

}  // namespace mpnanny::check::fp16_autocast_without_scaler
