#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::clamp_bound_rounds_to_one {

void Check(const FileFacts& facts, Sink& sink) {
  ForEachCall(facts, [&](NodeId call) {
    const std::string callee = facts.names.Callee(call);
    const bool method = callee.empty();
    const std::string_view name = method ? facts.names.Method(call) : TorchFunction(callee);
    const int shift = method ? 0 : 1;
    NodeId bound = kNoNode;
    if (name == "clamp" || name == "clip" || name == "clamp_")
      bound = facts.names.Argument(call, 1 + shift, "max");
    if (name == "clamp_max" || name == "clamp_max_")
      bound = facts.names.Argument(call, shift, "max");
    if (bound == kNoNode) return;
    const auto value = facts.bindings.Number(bound);
    if (!value || *value >= 1) return;
    const NodeId tensor =
        method ? facts.names.Receiver(call) : facts.names.Argument(call, 0, "input");
    const Value type = facts.dtypes->Of(tensor);
    if (!type.is_16bit()) return;
    if (*value < (type.type == Type::kBf16 ? kBf16RoundsToOne : kFp16RoundsToOne)) return;
    RawFinding& finding = sink.Add(
        call, "The upper bound " + std::string(facts.syntax.Text(bound).substr(0, 40)) +
                  " is 1 minus " + ShowNumber(1 - *value) + ": in " +
                  (type.type == Type::kBf16 ? "BF16" : "FP16") + " it rounds to exactly 1.");
    NoteAssumed(type, finding);
  });
}

}  // namespace mpnanny::static_check::clamp_bound_rounds_to_one
