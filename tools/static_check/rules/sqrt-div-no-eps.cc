#include <string>
#include <string_view>

#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::sqrt_div_no_eps {
namespace {

// What an FP16 value is that is zero for plausible inputs; "" if its form does not say so.
std::string_view MayBeZero(const FileFacts& facts, NodeId expression, int depth = 6) {
  if (depth == 0) return {};
  const NodeId id = Traced(facts, expression);
  if (SquareOf(facts, id) != kNoNode) return "a square";
  if (OperatorOf(facts, id) == "-") {
    // max - min, E[x^2] - E[x]^2.
    const Fields& f = PythonFields();
    const auto left = TracedCall(facts, facts.syntax.Child(id, f.left), {"max", "amax"});
    const auto right = TracedCall(facts, facts.syntax.Child(id, f.right), {"min", "amin"});
    if (left && right) return "a range";
    return {};
  }
  const auto call = TorchCallAt(facts, id);
  if (!call) return {};
  if (call->name == "var") return "a variance";
  if (call->name == "std") return "a standard deviation";
  if (call->name == "norm" || call->name == "vector_norm") return "a norm";
  if (call->name == "relu") return "a rectified value";
  const bool sum =
      call->name == "sum" || call->name == "mean" || call->name == "max" || call->name == "amax";
  if (sum && SquareOf(facts, call->tensor) != kNoNode) return "a sum of squares";
  if (sum && TracedCall(facts, call->tensor, {"abs", "relu"})) return "a sum of magnitudes";
  if (call->name == "unsqueeze" || call->name == "view" || call->name == "expand_as" ||
      call->name == "sqrt")
    return MayBeZero(facts, call->tensor, depth - 1);
  return {};
}

void Report(const FileFacts& facts, Sink& sink, NodeId node, NodeId operand,
            std::string_view what) {
  const Value type = facts.dtypes->Of(operand);
  if (!type.is_fp16() || !MayTrain(facts, node)) return;
  const std::string_view zero = MayBeZero(facts, operand);
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

}  // namespace mpnanny::static_check::sqrt_div_no_eps
