#include <string>
#include <string_view>

#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::mask_after_product {
namespace {

// Whether the value, or what a name for it was given first, is memory that nothing was written to.
bool StartsUnwritten(const FileFacts& facts, NodeId expression) {
  const NodeId id = facts.syntax.Unwrap(expression);
  const auto is_empty = [&](NodeId value) {
    const Call* call = facts.names.CallAt(facts.syntax.Unwrap(value));
    return call != nullptr && (call->callee == "torch.empty" ||
                               call->callee == "torch.empty_like" || call->method == "new_empty");
  };
  if (is_empty(id)) return true;
  if (!facts.syntax.Is(id, Kind::kIdentifier)) return false;
  NodeId first = kNoNode;
  for (const Assignment& each : facts.bindings.AssignmentsOf(id)) {
    if (each.value == kNoNode || each.target > id) continue;
    if (is_empty(each.value)) first = each.value;
  }
  return first != kNoNode;
}

// The operand of a product that holds memory without values, and that is not masked itself.
NodeId Unwritten(const FileFacts& facts, NodeId product) {
  const std::string_view op = OperatorOf(facts, product);
  if (op != "*" && op != "@") return kNoNode;
  const Fields& f = PythonFields();
  for (const NodeId side :
       {facts.syntax.Child(product, f.left), facts.syntax.Child(product, f.right)}) {
    if (StartsUnwritten(facts, side)) return side;
  }
  return kNoNode;
}

void Report(const FileFacts& facts, Sink& sink, NodeId masked) {
  if (!MayTrain(facts, masked)) return;
  // `y = y * w; y = y.masked_fill(…)`: the last value above counts.
  NodeId product = facts.syntax.Unwrap(masked);
  if (facts.syntax.Is(product, Kind::kIdentifier)) {
    NodeId last = kNoNode;
    for (const Assignment& each : facts.bindings.AssignmentsOf(product)) {
      if (each.value != kNoNode && each.value < masked && !IsInside(facts, masked, each.value))
        last = each.value;
    }
    product = facts.syntax.Unwrap(last);
  }
  const NodeId operand = Unwritten(facts, product);
  if (operand == kNoNode) return;
  sink.Add(product, "Rows of " + std::string(facts.syntax.Text(operand).substr(0, 40)) +
                        " that were never written are multiplied before they are masked: in "
                        "backward 0 times NaN is NaN in the other factor's gradient.");
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  ForEachTorchCall(facts, {"masked_fill", "masked_fill_"}, [&](const TorchCall& call) {
    const auto fill = Constant(facts, ArgumentOf(facts, call, 1, "value"));
    if (fill && *fill == 0) Report(facts, sink, call.tensor);
  });
  for (const Call* call : facts.names.CallsNamed("where")) {
    if (call->callee != "torch.where") continue;
    const NodeId kept = facts.names.Argument(call->node, 1, "input");
    const NodeId other = facts.names.Argument(call->node, 2, "other");
    const auto zero = Constant(facts, other);
    if (zero && *zero == 0) Report(facts, sink, kept);
  }
}

}  // namespace mpnanny::check::mask_after_product
