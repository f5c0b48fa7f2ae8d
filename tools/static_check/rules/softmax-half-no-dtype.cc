#include "tools/static_check/rule_support.h"
#include "tools/static_check/torch_calls.h"

namespace mpnanny::static_check::softmax_half_no_dtype {

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.sixteen_bit) return;
  ForEachTorchCall(facts, {"softmax", "log_softmax"}, [&](const TorchCall& call) {
    // Inside a region autocast decides, or it is off: autocast-disabled-no-float.
    if (facts.regions.At(call.node) != nullptr || !MayTrain(facts, call.node)) return;
    if (facts.names.Argument(call.node, -1, "dtype") != kNoNode) return;
    const Value type = facts.dtypes->Of(call.node);
    if (!type.is_16bit() || !facts.dtypes->Of(call.tensor).is_16bit()) return;
    RawFinding& finding = sink.Add(call.node, std::string(call.name) +
                                                  " of a 16-bit tensor outside of autocast gives " +
                                                  (type.is_fp16() ? "FP16." : "16 bits."));
    NoteAssumed(type, finding);
  });
}

}  // namespace mpnanny::static_check::softmax_half_no_dtype
