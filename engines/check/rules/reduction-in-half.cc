#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::reduction_in_half {

void Check(const FileFacts& facts, Sink& sink) {
  ForEachTorchCall(facts, {"sum", "prod", "nansum"}, [&](const TorchCall& call) {
    const Value type = facts.dtypes->Of(call.node);
    if (!type.is_16bit() || !facts.dtypes->Of(call.tensor).is_16bit()) return;
    RawFinding& finding = sink.Add(
        call.node, std::string(call.name) + " returns 16 bits here: " +
                       (type.is_fp16() ? "above 65504 inf, from 2048 on in steps of 2 and more."
                                       : "from 256 on in steps of 2 and more."));
    NoteAssumed(type, finding);
  });
}

}  // namespace mpnanny::check::reduction_in_half
