#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::norm_in_half {

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.HasHalfChoice()) return;
  ForEachTorchCall(facts, {"norm", "vector_norm", "matrix_norm"}, [&](const TorchCall& call) {
    if (facts.regions.At(call.node) != nullptr || !MayTrain(facts, call.node)) return;
    const Value type = facts.dtypes->Of(call.node);
    if (!type.is_fp16() || !facts.dtypes->Of(call.tensor).is_fp16()) return;
    RawFinding& finding =
        sink.Add(call.node,
                 "The norm of an FP16 tensor outside of autocast is stored in FP16: above 65504 "
                 "it is infinite, and its square is from 256 on.");
    NoteAssumed(type, finding);
  });
}

}  // namespace mpnanny::check::norm_in_half
