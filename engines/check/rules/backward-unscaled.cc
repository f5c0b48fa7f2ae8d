#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engines/check/rule_support.h"

namespace mpnanny::check::backward_unscaled {
namespace {

// True if the loss on which backward() is called was computed under FP16 autocast on CUDA, in the
// same function: where it got its value last.
bool IsFp16Loss(const FileFacts& facts, NodeId backward) {
  const NodeId loss = facts.names.Receiver(backward);
  const Autocast* autocast = nullptr;
  for (const Assignment& assignment : facts.bindings.AssignmentsOf(loss)) {
    if (facts.syntax.FunctionOf(assignment.target) == facts.syntax.FunctionOf(backward) &&
        assignment.target < backward && assignment.value != kNoNode)
      autocast = facts.regions.At(assignment.target);
  }
  return autocast != nullptr && autocast->enabled == Tri::kYes && !autocast->foreign &&
         autocast->device == Device::kCuda && autocast->dtype == HalfType::kFp16;
}

// True if the function that goes backward also steps by that scaler.
bool StepsHere(const FileFacts& facts, const Violation& violation) {
  const std::vector<ScalerCall>& calls = facts.scalers.calls();
  return std::any_of(calls.begin(), calls.end(), [&](const ScalerCall& call) {
    return call.op == ScalerCall::Op::kStep && call.scaler == violation.scaler &&
           facts.syntax.FunctionOf(call.call) == facts.syntax.FunctionOf(violation.node);
  });
}

// True if nothing but the assignment ever names the scaler.
bool IsNeverUsed(const FileFacts& facts, const ScalerMade& made) {
  if (made.key.empty()) return false;
  const std::string name(LastComponent(made.key));
  const bool attribute = made.key.find('.') != std::string::npos;
  for (const FileFacts* file : *facts.files) {
    if (file != &facts && !attribute) continue;
    for (const NodeId id : file->names.Uses(name)) {
      NodeId target = id;
      if (file->syntax.Is(file->syntax[id].parent, Kind::kAttribute))
        target = file->syntax[id].parent;
      const bool assigned = file->syntax.Is(file->syntax[target].parent, Kind::kAssignment) &&
                            file->syntax[target].field == PythonFields().left;
      if (!assigned) return false;
    }
  }
  return true;
}

// A scaler is made where FP16 is wanted, and training goes on without it.
void CheckUnused(const FileFacts& facts, const std::set<NodeId>& reported, Sink& sink) {
  const auto& regions = facts.regions.all();
  if (regions.empty() || !facts.scalers.calls().empty()) return;
  // Regions that are switched off, as custom_fwd(cast_inputs=…) makes them, leave nothing to scale.
  const bool on = std::any_of(regions.begin(), regions.end(),
                              [](const Autocast& region) { return region.enabled != Tri::kNo; });
  for (const ScalerMade& made : facts.scalers.made()) {
    if (!IsNeverUsed(facts, made)) continue;
    const NodeId function = facts.syntax.FunctionOf(made.call);
    const bool local = function != 0 && made.key.find('.') == std::string::npos;
    for (const struct Call* call : facts.names.CallsNamed("backward")) {
      const bool plain = call->receiver != kNoNode && call->callee.empty() &&
                         facts.names.Arguments(call->node).empty();
      if (!plain || reported.contains(call->node) ||
          (local && facts.syntax.FunctionOf(call->node) != function))
        continue;
      if (!on) {
        sink.Add(call->node, made.key +
                                 " is made and never used, and nothing here runs in 16 bits: it "
                                 "can go, or this loss is to be scaled once something does.")
            .guess = true;
        return;
      }
      sink.Add(call->node, made.key +
                               " is made and never used: this loss is not scaled, and under FP16 "
                               "small gradients become zero.")
          .form = "scaler-unused";
    }
    return;
  }
}

// True if a loop of that function runs over parameters() by that name.
bool IsParameter(const FileFacts& facts, NodeId node, std::string_view name) {
  const auto calls = facts.names.CallsNamed("parameters");
  return std::any_of(calls.begin(), calls.end(), [&](const struct Call* call) {
    const NodeId loop = facts.syntax[call->node].parent;
    return facts.syntax.Is(loop, Kind::kFor) &&
           facts.syntax.FunctionOf(loop) == facts.syntax.FunctionOf(node) &&
           facts.syntax.Text(facts.syntax.Child(loop, PythonFields().left)) == name;
  });
}

// True if the function asks for the gradient of an input and reads it behind the backward pass:
// adversarial examples, saliency. The gradients of weights are by-products there.
bool IsForInput(const FileFacts& facts, NodeId backward) {
  const Fields& f = PythonFields();
  const Syntax& syntax = facts.syntax;
  const NodeId function = syntax.FunctionOf(backward);
  const auto is_read = [&](std::string_view input) {
    if (input.empty() || IsParameter(facts, backward, input)) return false;
    const NodeId end = function == 0 ? static_cast<NodeId>(syntax.size()) : syntax[function].after;
    for (NodeId id = backward; id < end; ++id) {
      if (syntax.Is(id, Kind::kAttribute) && syntax.Text(syntax.Child(id, f.attribute)) == "grad" &&
          syntax.Text(syntax.Child(id, f.object)) == input)
        return true;
    }
    return false;
  };
  for (const struct Call* call : facts.names.CallsNamed("requires_grad_")) {
    if (call->receiver != kNoNode && syntax.FunctionOf(call->node) == function &&
        is_read(syntax.Text(call->receiver)))
      return true;
  }
  return std::any_of(facts.assignments.begin(), facts.assignments.end(), [&](NodeId id) {
    const NodeId target = syntax.Child(id, f.left);
    return syntax.Is(target, Kind::kAttribute) && syntax.FunctionOf(id) == function &&
           syntax.Text(syntax.Child(target, f.attribute)) == "requires_grad" &&
           is_read(syntax.Text(syntax.Child(target, f.object)));
  });
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  // With enabled=False nothing is ever scaled, and nothing is unscaled.
  const auto& made = facts.scalers.made();
  if (std::any_of(made.begin(), made.end(), [](const ScalerMade& m) { return m.enabled_false; }))
    return;
  std::set<NodeId> reported;
  ReportViolations(
      facts, Violation::Kind::kPlainBackward, sink,
      [&](const Violation& v) {
        reported.insert(v.node);
        // scale() of the same name may be called by another path, another method, another file.
        return "This loss is not scaled: " + v.scaler + ".step() raises AssertionError where " +
               v.scaler +
               ".scale() was never called, and else divides these gradients by the loss scale.";
      },
      [&](const Violation& v, RawFinding& finding) {
        if (!StepsHere(facts, v)) finding.form = "other-function";
      });
  ReportViolations(
      facts, Violation::Kind::kPlainAdded, sink,
      [&](const Violation& v) {
        reported.insert(v.node);
        return "This loss is not scaled, and its gradients are added to those of one that is: " +
               v.scaler + ".step() divides both by the loss scale.";
      },
      [&](const Violation& v, RawFinding& finding) {
        finding.guess = finding.guess || IsForInput(facts, v.node);
        if (!StepsHere(facts, v)) finding.form = "other-function";
      });
  for (const Violation& v : facts.scaler_order->violations()) {
    if (v.kind != Violation::Kind::kPlainLoss || v.node != v.inner || reported.contains(v.node) ||
        !IsFp16Loss(facts, v.node))
      continue;
    RawFinding& finding =
        sink.Add(v.node,
                 "This loss comes from FP16 autocast and is not scaled, although there is a "
                 "GradScaler: small gradients become zero.");
    finding.confidence = "medium";
    finding.guess = IsForInput(facts, v.node);
    reported.insert(v.node);
  }
  CheckUnused(facts, reported, sink);
}

}  // namespace mpnanny::check::backward_unscaled
