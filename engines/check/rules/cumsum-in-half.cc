#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::cumsum_in_half {

void Check(const FileFacts& facts, Sink& sink) {
  ForEachTorchCall(facts, {"cumsum", "cumprod", "logcumsumexp"}, [&](const TorchCall& call) {
    const Value type = facts.dtypes->Of(call.node);
    if (!type.is_16bit() || !facts.dtypes->Of(call.tensor).is_16bit()) return;
    RawFinding& finding = sink.Add(call.node, std::string(call.name) +
                                                  " runs in 16 bits here: every partial result "
                                                  "is rounded to " +
                                                  (type.is_fp16() ? "11 bits." : "16 bits."));
    NoteAssumed(type, finding);
  });
}

}  // namespace mpnanny::check::cumsum_in_half
