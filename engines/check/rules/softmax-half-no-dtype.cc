#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::softmax_half_no_dtype {

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.HasHalfChoice()) return;
  ForEachTorchCall(facts, {"softmax", "log_softmax"}, [&](const TorchCall& call) {
    // Inside a region autocast decides, or it is off: autocast-disabled-no-float.
    if (facts.regions.At(call.node) != nullptr || !MayTrain(facts, call.node)) return;
    if (facts.names.Argument(call.node, -1, "dtype") != kNoNode) return;
    const Value type = facts.dtypes->Of(call.node);
    // In BF16 there is no underflow to speak of, and a benchmark's yardstick trains nothing.
    if (!type.is_fp16() || !facts.dtypes->Of(call.tensor).is_16bit() ||
        facts.path.find("bench") != std::string::npos)
      return;
    RawFinding& finding = sink.Add(
        call.node, std::string(call.name) + " of a 16-bit tensor outside of autocast gives FP16.");
    NoteAssumed(type, finding);
  });
}

}  // namespace mpnanny::check::softmax_half_no_dtype
