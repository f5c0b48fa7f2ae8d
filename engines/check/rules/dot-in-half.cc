#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::dot_in_half {

void Check(const FileFacts& facts, Sink& sink) {
  const auto report = [&](NodeId node, Value type) {
    if (!type.is_16bit()) return;
    RawFinding& finding =
        sink.Add(node, std::string("A dot product stored in ") +
                           (type.is_fp16() ? "FP16: 11 bits, at most 65504." : "16 bits."));
    NoteAssumed(type, finding);
  };
  ForEachTorchCall(facts, {"dot", "vdot", "inner"}, [&](const TorchCall& call) {
    if (facts.dtypes->Of(call.tensor).is_16bit()) report(call.node, facts.dtypes->Of(call.node));
  });
  // (a * b).sum(-1)
  ForEachTorchCall(facts, {"sum"}, [&](const TorchCall& call) {
    const NodeId product = Traced(facts, call.tensor);
    if (OperatorOf(facts, product) != "*" || SquareOf(facts, product) != kNoNode) return;
    if (facts.dtypes->Of(product).is_16bit()) report(call.node, facts.dtypes->Of(call.node));
  });
}

}  // namespace mpnanny::check::dot_in_half
