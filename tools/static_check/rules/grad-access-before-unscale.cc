#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/protocol/protocol_gradients.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::grad_access_before_unscale {

// loss.backward(), and then something that measures gradients, in a project that scales somewhere:
// whoever scales, nobody unscales in between.
static void Guess(const FileFacts& facts, Sink& sink) {
  const ProjectFacts& project = facts.project;
  if (!project.grad_scaler && !project.scaling_elsewhere) return;
  if (!project.sixteen_bit || Holds(facts.syntax.text(), "unscale")) return;
  for (const Call* backward : facts.names.CallsNamed("backward")) {
    const NodeId function = facts.syntax.FunctionOf(backward->node);
    if (backward->receiver == kNoNode || !MayTrain(facts, backward->node) || function == 0)
      continue;
    for (const Call& call : facts.names.calls()) {
      if (call.node < backward->node || facts.syntax.FunctionOf(call.node) != function ||
          !Holds(call.name, "grad") ||
          !HoldsAny(call.name, {"norm", "track", "hist", "stat", "flow", "log_"}) ||
          HoldsAny(call.name, {"clip", "zero"}))
        continue;
      MarkGuess(sink.Add(call.node,
                         "These gradients carry the loss scale where the loss was scaled: nothing "
                         "in this file unscales them before they are measured."));
    }
  }
}

// Gradients that are measured in Lightning's on_after_backward, which comes before it unscales.
static void GuessHook(const FileFacts& facts, Sink& sink) {
  if (!Holds(facts.syntax.text(), "on_after_backward")) return;
  for (const Function& function : facts.bindings.functions()) {
    if (function.name != "on_after_backward" || function.klass == kNoNode) continue;
    for (const Call& call : facts.names.calls()) {
      if (!IsInside(facts, call.node, function.node) || !HoldsAny(call.name, {"norm", "log"}) ||
          Holds(call.name, "clip") || !Holds(facts.syntax.Text(call.node), "grad"))
        continue;
      MarkGuess(sink.Add(call.node,
                         "With FP16 gradients still carry the loss scale in on_after_backward: "
                         "Lightning unscales them before on_before_optimizer_step."));
      break;
    }
  }
}

// autograd.grad() of a scaled loss, in a function that never divides by the scale: norms and
// weights that are made of it move with the scale.
static void GuessScaledOutputs(const FileFacts& facts, Sink& sink) {
  constexpr std::string_view kScale = "caler.scale(";
  if (!Holds(facts.syntax.text(), kScale)) return;
  for (const Call* call : facts.names.CallsNamed("grad")) {
    if (call->callee != "torch.autograd.grad") continue;
    const NodeId function = facts.syntax.FunctionOf(call->node);
    const NodeId outputs = facts.names.Argument(call->node, 0, "outputs");
    if (outputs == kNoNode) continue;
    bool scaled = Holds(facts.syntax.Text(outputs), kScale);
    for (const Assignment& assignment : facts.bindings.AssignmentsOf(outputs)) {
      if (assignment.value != kNoNode && assignment.target < call->node)
        scaled = scaled || Holds(facts.syntax.Text(assignment.value), kScale);
    }
    if (!scaled || function == 0 ||
        HoldsAny(facts.syntax.Text(function), {"get_scale", "unscale_(", "inv_scale"}))
      continue;
    MarkGuess(sink.Add(call->node,
                       "These gradients carry the loss scale, and nothing in this function divides "
                       "by it: what is measured of them moves with the scale, and an epsilon "
                       "beside them means nothing."));
  }
}

void Check(const FileFacts& facts, Sink& sink) {
  GuessScaledOutputs(facts, sink);
  GuessHook(facts, sink);
  ReportViolations(facts, Violation::Kind::kGradientsRead, sink, [&](const Violation& v) {
    const std::string what = v.node == v.inner ? "These gradients still carry"
                                               : "This call uses gradients that still carry";
    return what + " the loss scale: there is no " + v.scaler +
           ".unscale_(optimizer) between the backward pass and this line.";
  });
  Guess(facts, sink);
}

}  // namespace mpnanny::static_check::grad_access_before_unscale
