#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::clamp_bound_rounds_to_one {

void Check(const FileFacts& facts, Sink& sink) {
  const auto check = [&](const TorchCall& call, NodeId bound) {
    if (bound == kNoNode) return;
    const auto value = Constant(facts, bound);
    if (!value || *value >= 1) return;
    const Value type = facts.dtypes->Of(call.tensor);
    if (!type.is_16bit()) return;
    if (*value < (type.type == Type::kBf16 ? kBf16RoundsToOne : kFp16RoundsToOne)) return;
    RawFinding& finding = sink.Add(
        call.node, "The upper bound " + std::string(facts.syntax.Text(bound).substr(0, 40)) +
                       " is 1 minus " + ShowNumber(1 - *value) + ": in " +
                       (type.type == Type::kBf16 ? "BF16" : "FP16") + " it rounds to exactly 1.");
    NoteUnlessShown(type, finding);
  };
  ForEachTorchCall(facts, {"clamp", "clip", "clamp_", "clip_"},
                   [&](const TorchCall& call) { check(call, ArgumentOf(facts, call, 1, "max")); });
  ForEachTorchCall(facts, {"clamp_max", "clamp_max_"},
                   [&](const TorchCall& call) { check(call, ArgumentOf(facts, call, 0, "max")); });
  ForEachTorchCall(facts, {"minimum", "min"}, [&](const TorchCall& call) {
    check(call, ArgumentOf(facts, call, 0, "other"));
  });
}

}  // namespace mpnanny::check::clamp_bound_rounds_to_one
