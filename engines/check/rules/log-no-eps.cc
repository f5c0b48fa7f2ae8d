#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::log_no_eps {
namespace {

// Functions whose result is exactly zero for plausible inputs.
bool GivesZero(const FileFacts& facts, NodeId expression, int depth = 4) {
  const NodeId id = Traced(facts, expression);
  if (depth == 0) return false;
  if (SquareOf(facts, id) != kNoNode) return true;
  const auto call = TorchCallAt(facts, id);
  if (!call) return false;
  if (call->name == "relu" || call->name == "abs" || call->name == "relu_" || call->name == "var" ||
      call->name == "std")
    return true;
  if (call->name == "sum" || call->name == "mean" || call->name == "unsqueeze" ||
      call->name == "view" || call->name == "max" || call->name == "amax")
    return GivesZero(facts, call->tensor, depth - 1);
  return false;
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.HasHalfChoice()) return;
  ForEachTorchCall(facts, {"log", "log2", "log10"}, [&](const TorchCall& call) {
    if (call.is_method && !facts.names.Arguments(call.node).empty()) return;
    const Value type = facts.dtypes->Of(call.tensor);
    if (!type.is_fp16() || !MayTrain(facts, call.node) || !GivesZero(facts, call.tensor)) return;
    RawFinding& finding =
        sink.Add(call.node,
                 "The logarithm of an FP16 value that is zero below 3e-8 (a square below 2.4e-4), "
                 "without an epsilon: -inf.");
    NoteAssumed(type, finding);
  });
}

}  // namespace mpnanny::check::log_no_eps
