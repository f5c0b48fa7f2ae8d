#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::log_of_sigmoid {
namespace {

// The sigmoid in `p`, `1 - p` and `p + eps`, through names; nullopt if there is none.
std::optional<TorchCall> SigmoidIn(const FileFacts& facts, NodeId expression, bool* complement) {
  const Fields& f = PythonFields();
  NodeId id = Traced(facts, expression);
  for (int depth = 0; depth < 4; ++depth) {
    const std::string_view op = OperatorOf(facts, id);
    if (op.empty()) break;
    const NodeId left = facts.syntax.Child(id, f.left);
    const NodeId right = facts.syntax.Child(id, f.right);
    const auto added =
        facts.bindings.Number(right) ? facts.bindings.Number(right) : facts.bindings.Number(left);
    if (op == "+") {
      // What FP16 holds is an epsilon that works, and 1 + p is none.
      if (added && *added > kFp16RoundsToZero) return std::nullopt;
      const bool named = added || facts.syntax.Text(right).find("eps") != std::string_view::npos;
      if (!named) return std::nullopt;
      id = Traced(facts, facts.bindings.Number(left) ? right : left);
    } else if (op == "-" && facts.bindings.Number(left)) {
      *complement = true;
      id = Traced(facts, right);
    } else {
      return std::nullopt;
    }
  }
  return TracedCall(facts, id, {"sigmoid", "sigmoid_"});
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.sixteen_bit) return;
  ForEachTorchCall(facts, {"log"}, [&](const TorchCall& call) {
    if (call.is_method && !facts.names.Arguments(call.node).empty()) return;  // logger.log(…)
    bool complement = false;
    const auto sigmoid = SigmoidIn(facts, call.tensor, &complement);
    if (!sigmoid || !MayTrain(facts, call.node)) return;
    const Value type = facts.dtypes->Of(sigmoid->node);
    if (type.type == Type::kFp32 || facts.dtypes->Of(call.tensor).type == Type::kFp32) return;
    RawFinding& finding = sink.Add(
        call.node, complement
                       ? "log(1 - sigmoid(x)): in FP16 the sigmoid is exactly 1 from x = 8.3 on."
                       : "log(sigmoid(x)): in FP16 the sigmoid is zero below x = -17.3.");
    if (!type.is_16bit()) finding.confidence = "medium";
    NoteAssumed(type, finding);
  });
}

}  // namespace mpnanny::check::log_of_sigmoid
