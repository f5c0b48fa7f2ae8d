#include "tools/static_check/half_guess.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/torch_calls.h"

namespace mpnanny::static_check::softmax_half_no_dtype {

// The model may be 16-bit as a whole, and nobody asks for FP32.
static void Guess(const FileFacts& facts, Sink& sink, const TorchCall& call) {
  const HalfGuess guess(facts, call.node);
  if (!guess.weights() || !guess.MayBeHalf(call.tensor)) return;
  MarkGuess(sink.Add(call.node, "If the model is 16-bit as a whole, as this project lets it, " +
                                    std::string(call.name) + " returns 16 bits here."));
}

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.sixteen_bit) return;
  ForEachTorchCall(facts, {"cross_entropy"}, [&](const TorchCall& call) {
    if (facts.regions.At(call.node) == nullptr && !call.is_method) Guess(facts, sink, call);
  });
  ForEachTorchCall(facts, {"softmax", "log_softmax"}, [&](const TorchCall& call) {
    // Inside a region autocast decides, or it is off: autocast-disabled-no-float.
    if (facts.regions.At(call.node) != nullptr || !MayTrain(facts, call.node)) return;
    if (facts.names.Argument(call.node, -1, "dtype") != kNoNode) return;
    const Value type = facts.dtypes->Of(call.node);
    if (!type.is_16bit() || !facts.dtypes->Of(call.tensor).is_16bit()) {
      Guess(facts, sink, call);
      return;
    }
    RawFinding& finding = sink.Add(call.node, std::string(call.name) +
                                                  " of a 16-bit tensor outside of autocast gives " +
                                                  (type.is_fp16() ? "FP16." : "16 bits."));
    NoteAssumed(type, finding);
  });
}

}  // namespace mpnanny::static_check::softmax_half_no_dtype
