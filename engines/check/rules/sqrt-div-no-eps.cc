#include <string>
#include <string_view>

#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::sqrt_div_no_eps {
namespace {

void Report(const FileFacts& facts, Sink& sink, NodeId node, NodeId operand,
            std::string_view what) {
  const Value type = facts.dtypes->Of(operand);
  if (!type.is_fp16() || !MayTrain(facts, node)) return;
  const std::string_view zero = ZeroForm(facts, operand);
  if (zero.empty()) return;
  RawFinding& finding =
      sink.Add(node, std::string(what) + " " + std::string(zero) +
                         " in FP16 without an epsilon: it is zero not only for constant input, but "
                         "for differences below 2.4e-4.");
  NoteAssumed(type, finding);
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.HasHalfChoice()) return;
  ForEachTorchCall(facts, {"sqrt", "rsqrt"}, [&](const TorchCall& call) {
    Report(facts, sink, call.node, call.tensor, "The root of");
  });
  for (const NodeId id : facts.binaries) {
    if (OperatorOf(facts, id) != "/") continue;
    const NodeId right = facts.syntax.Child(id, PythonFields().right);
    if (TracedCall(facts, right, {"relu"})) continue;
    Report(facts, sink, id, right, "A division by");
  }
  for (const NodeId id : facts.augmented) {
    if (facts.syntax.Text(facts.syntax.Child(id, PythonFields().operator_)) == "/=")
      Report(facts, sink, id, facts.syntax.Child(id, PythonFields().right), "A division by");
  }
}

}  // namespace mpnanny::check::sqrt_div_no_eps
