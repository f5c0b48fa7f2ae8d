#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::autocast_disabled_no_float {

void Check(const FileFacts& facts, Sink& sink) {
  ForEachCall(facts, [&](NodeId call) {
    const Autocast* autocast = facts.regions.At(call);
    if (autocast == nullptr || autocast->enabled != Tri::kNo || autocast->device == Device::kCpu)
      return;
    const std::string callee = facts.names.Callee(call);
    const std::string_view name = callee.empty() ? facts.names.Method(call) : TorchFunction(callee);
    if (name.empty() || facts.names.Argument(call, -1, "dtype") != kNoNode) return;
    if (facts.ops.PolicyOf(Device::kCuda, name) != CastPolicy::kFp32) return;
    std::vector<NodeId> inputs = facts.names.Arguments(call);
    if (callee.empty()) inputs.insert(inputs.begin(), facts.names.Receiver(call));
    for (const NodeId input : inputs) {
      const Value value = facts.dtypes->Of(input);
      if (!value.is_16bit()) continue;
      RawFinding& finding = sink.Add(
          call, "Autocast is off here, and " + std::string(name) + " gets the 16-bit value " +
                    std::string(facts.syntax.Text(input).substr(0, 60)) +
                    ": it runs in 16 bits, where autocast would have run it in FP32.");
      NoteAssumed(value, finding);
      return;
    }
  });
}

}  // namespace mpnanny::static_check::autocast_disabled_no_float
