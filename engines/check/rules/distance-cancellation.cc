#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::distance_cancellation {
namespace {

struct Terms {
  std::vector<NodeId> plus, minus;
};

void Collect(const FileFacts& facts, NodeId expression, bool negative, int depth, Terms& terms) {
  const NodeId id = depth == 0 ? expression : facts.syntax.Unwrap(expression);
  const std::string_view op = OperatorOf(facts, id);
  if ((op == "+" || op == "-") && depth > 0) {
    Collect(facts, facts.syntax.Child(id, PythonFields().left), negative, depth - 1, terms);
    Collect(facts, facts.syntax.Child(id, PythonFields().right), negative != (op == "-"), depth - 1,
            terms);
    return;
  }
  (negative ? terms.minus : terms.plus).push_back(id);
}

bool IsSumOfSquares(const FileFacts& facts, NodeId expression) {
  NodeId id = Traced(facts, expression);
  for (int depth = 0; depth < 4; ++depth) {
    if (facts.syntax.Is(id, Kind::kSubscript)) {
      id = Traced(facts, facts.syntax.Child(id, PythonFields().value));
      continue;
    }
    const auto call = TorchCallAt(facts, id);
    if (!call)
      return SquareOf(facts, id) != kNoNode && TracedCall(facts, SquareOf(facts, id), {"norm"});
    if (call->name == "sum") return SquareOf(facts, call->tensor) != kNoNode;
    if (call->name == "pow") return TracedCall(facts, call->tensor, {"norm"}).has_value();
    if (!call->is_method) return false;
    id = Traced(facts, call->tensor);  // .unsqueeze(1), .view(…), .t()
  }
  return false;
}

// The matrix product in `2 * x @ y.T`, or kNoNode.
NodeId DoubledProduct(const FileFacts& facts, NodeId expression, int depth = 4) {
  const NodeId id = Traced(facts, expression);
  const Fields& f = PythonFields();
  const std::string_view op = OperatorOf(facts, id);
  if (op == "@") {
    // 2 * x @ y.T is (2 * x) @ y.T.
    const NodeId left = facts.syntax.Unwrap(facts.syntax.Child(id, f.left));
    return OperatorOf(facts, left) == "*" && facts.bindings.Number(facts.syntax.Child(left, f.left))
               ? id
               : kNoNode;
  }
  if (op != "*" || depth == 0) return kNoNode;
  for (const auto& [number, other] : {std::pair(f.left, f.right), std::pair(f.right, f.left)}) {
    const auto factor = facts.bindings.Number(facts.syntax.Child(id, number));
    if (!factor || (*factor != 2 && *factor != -2)) continue;
    const NodeId product = Traced(facts, facts.syntax.Child(id, other));
    if (OperatorOf(facts, product) == "@") return product;
    if (TracedCall(facts, product, {"matmul", "mm", "bmm", "einsum", "addmm"})) return product;
  }
  return kNoNode;
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.HasHalfChoice()) return;
  for (const NodeId id : facts.binaries) {
    const std::string_view op = OperatorOf(facts, id);
    if (op != "-" && op != "+") continue;
    // The whole sum, not a part of it.
    NodeId up = facts.syntax[id].parent;
    while (facts.syntax.Is(up, Kind::kParenthesized)) up = facts.syntax[up].parent;
    if (const std::string_view above = OperatorOf(facts, up); above == "+" || above == "-")
      continue;
    Terms terms;
    Collect(facts, id, false, 6, terms);
    bool squares = false;
    NodeId product = kNoNode;
    for (const NodeId term : terms.plus) squares = squares || IsSumOfSquares(facts, term);
    if (!squares) continue;
    for (const NodeId term : terms.minus) {
      if (product == kNoNode) product = DoubledProduct(facts, term);
    }
    if (product == kNoNode) continue;
    const Value type = facts.dtypes->Of(product);
    if (!type.is_16bit() || !MayTrain(facts, id)) continue;
    RawFinding& finding = sink.Add(
        id, std::string("Squared distances as |x|^2 + |y|^2 - 2xy, with the product in ") +
                (type.is_fp16() ? "FP16" : "16 bits") +
                ": distances much smaller than the vectors are rounding, and may be negative.");
    NoteAssumed(type, finding);
  }
}

}  // namespace mpnanny::check::distance_cancellation
