#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::domain_no_clamp {

void Check(const FileFacts& facts, Sink& sink) {
  ForEachTorchCall(
      facts, {"acos", "asin", "arccos", "arcsin", "atanh", "arctanh"}, [&](const TorchCall& call) {
        const Value type = facts.dtypes->Of(call.tensor);
        if (!type.is_16bit() ||
            TracedCall(facts, call.tensor, {"clamp", "clip", "tanh", "clamp_", "hardtanh"}))
          return;
        RawFinding& finding =
            sink.Add(call.node, std::string(call.name) +
                                    " of a 16-bit value that is not clamped: rounding "
                                    "alone takes a cosine beyond 1, where it is NaN.");
        NoteAssumed(type, finding);
      });
}

}  // namespace mpnanny::check::domain_no_clamp
