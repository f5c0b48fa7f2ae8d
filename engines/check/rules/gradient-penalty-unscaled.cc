#include <algorithm>

#include "engines/check/rule_support.h"

namespace mpnanny::check::gradient_penalty_unscaled {
namespace {

bool IsFp16On(const FileFacts& facts, NodeId node) {
  const Autocast* autocast = facts.regions.At(node);
  return autocast != nullptr && autocast->enabled == Tri::kYes && !autocast->foreign &&
         autocast->device == Device::kCuda && autocast->dtype == HalfType::kFp16;
}

// True if the outputs were scaled, or may have been by a function of this file.
bool MayBeScaled(const FileFacts& facts, NodeId outputs) {
  if (!facts.scalers.ScaledBy(outputs).empty()) return true;
  const std::vector<Assignment> values = facts.bindings.AssignmentsOf(outputs);
  return std::any_of(values.begin(), values.end(), [&](const Assignment& assignment) {
    // outputs = [*map(scaler.scale, outputs)]
    return facts.syntax.Text(assignment.value).find(".scale") != std::string_view::npos;
  });
}

// True if the function that differentiates divides by a scaler's scale: get_scale() alone may be
// there for a log.
bool Unscales(const FileFacts& facts, NodeId node) {
  const NodeId function = facts.syntax.FunctionOf(node);
  const Autocast* autocast = facts.regions.At(node);
  if (autocast != nullptr && autocast->enabled == Tri::kNo) return false;
  const Fields& f = PythonFields();
  const auto divides = [&](NodeId scale) {
    const NodeId parent = facts.syntax[scale].parent;
    if (facts.syntax.Is(parent, Kind::kBinary))
      return facts.syntax.Text(facts.syntax.Child(parent, f.operator_)) == "/";
    if (!facts.syntax.Is(parent, Kind::kAssignment)) return false;
    // scale = scaler.get_scale() and, further down, 1 / max(scale, 1e-6).
    const std::string name(facts.syntax.Text(facts.syntax.Child(parent, f.left)));
    for (const NodeId binary : facts.binaries) {
      if (binary < parent || !IsInside(facts, binary, function) ||
          facts.syntax.Text(facts.syntax.Child(binary, f.operator_)) != "/")
        continue;
      const NodeId right = facts.syntax.Child(binary, f.right);
      for (NodeId id = right; id < facts.syntax[right].after; ++id) {
        if (facts.syntax.Is(id, Kind::kIdentifier) && facts.syntax.Text(id) == name) return true;
      }
    }
    return false;
  };
  const auto calls = facts.names.CallsNamed("get_scale");
  return function != 0 && std::any_of(calls.begin(), calls.end(), [&](const struct Call* call) {
           return facts.syntax.FunctionOf(call->node) == function && divides(call->node);
         });
}

// True if the outputs come from outside of the function, in a file that trains with a scaler, and
// nothing says that they are FP32.
bool MayBeHalf(const FileFacts& facts, NodeId outputs, NodeId node) {
  const Function* function = facts.bindings.FunctionAt(facts.syntax.FunctionOf(node));
  if (function == nullptr || !facts.scalers.Trains() || facts.regions.all().empty()) return false;
  const Autocast* autocast = facts.regions.At(node);
  if (autocast != nullptr && autocast->enabled == Tri::kNo) return false;
  if (std::find(function->parameters.begin(), function->parameters.end(),
                facts.names.Key(outputs)) != function->parameters.end())
    return true;
  // critic(mixed) in a function that is called inside a region.
  if (!facts.syntax.Is(facts.bindings.ValueOf(outputs, 1), Kind::kCall)) return false;
  const auto& edges = facts.modules->Edges(facts.number);
  return std::any_of(edges.begin(), edges.end(), [&](const CallEdge& edge) {
    const Autocast* around = facts.regions.At(edge.call);
    return edge.callee.function == function && around != nullptr && around->enabled != Tri::kNo &&
           around->dtype != HalfType::kBf16;
  });
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  for (const struct Call* call : facts.names.CallsNamed("grad")) {
    if (call->callee != "torch.autograd.grad" ||
        !facts.syntax.Is(facts.names.Argument(call->node, 4, "create_graph"), Kind::kTrue))
      continue;
    NodeId outputs = facts.syntax.Unwrap(facts.names.Argument(call->node, 0, "outputs"));
    if (facts.syntax.Text(outputs).find(".scale(") != std::string_view::npos) continue;
    while (facts.names.Method(outputs) == "sum" || facts.names.Method(outputs) == "mean")
      outputs = facts.names.Receiver(outputs);  // out.sum()
    const NodeId weights = facts.names.Argument(call->node, 2, "grad_outputs");
    if (outputs == kNoNode || MayBeScaled(facts, outputs) ||
        facts.syntax.Text(weights).find("scale") != std::string_view::npos)
      continue;
    // Only where the text says that the outputs were computed in FP16.
    const std::vector<Assignment> values = facts.bindings.AssignmentsOf(outputs);
    const bool half = std::any_of(values.begin(), values.end(), [&](const Assignment& a) {
      return facts.syntax.FunctionOf(a.target) == facts.syntax.FunctionOf(call->node) &&
             a.target < call->node && IsFp16On(facts, a.target);
    });
    if (half) {
      sink.Add(call->node);
    } else if (Unscales(facts, call->node)) {
      sink.Add(call->node,
               "These outputs are not scaled, and the gradients are then divided by the scale.");
    } else if (MayBeHalf(facts, outputs, call->node)) {
      sink.Add(call->node).guess = true;
    }
  }
}

}  // namespace mpnanny::check::gradient_penalty_unscaled
