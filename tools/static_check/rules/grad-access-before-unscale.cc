#include <algorithm>
#include <string_view>
#include <vector>

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

// True if the call reduces gradients over the workers: by its name, or in its body.
static bool ReducesGradients(const FileFacts& facts, const Call& call) {
  const auto reduces = [](std::string_view text) {
    return HoldsAny(text, {"all_reduce", "allreduce", "reduce_scatter", "reduce_grad", "sync_grad",
                           "average_grad", "synchronize_grad"});
  };
  const std::string_view text = facts.syntax.Text(call.node);
  if (reduces(call.name)) return Holds(text, "grad");
  const Definition callee = facts.Callee(call.node);
  if (callee.function == nullptr) return false;
  const FileFacts& file = *(*facts.files)[callee.module];
  const std::string_view body = file.syntax.Text(callee.function->node);
  return body.size() < 3000 && reduces(body) && Holds(body, "grad") && !Holds(body, "unscale_(");
}

// unscale_() first, and then the gradients are reduced by hand: every worker has looked for inf in
// its own gradients only, and clipped a part of them.
static void GuessReducedLate(const FileFacts& facts, Sink& sink) {
  const std::vector<ScalerCall>& calls = facts.scalers.calls();
  for (const ScalerCall& unscale : calls) {
    if (unscale.op != ScalerCall::Op::kUnscale) continue;
    const NodeId function = facts.syntax.FunctionOf(unscale.call);
    for (const ScalerCall& step : calls) {
      if (step.op != ScalerCall::Op::kStep || step.scaler != unscale.scaler ||
          step.call < unscale.call || facts.syntax.FunctionOf(step.call) != function)
        continue;
      const auto& all = facts.names.calls();
      const bool late = std::any_of(all.begin(), all.end(), [&](const Call& call) {
        return call.node > unscale.call && call.node < step.call &&
               facts.syntax.FunctionOf(call.node) == function &&
               !ExcludeEachOther(facts, call.node, unscale.call) && ReducesGradients(facts, call);
      });
      if (!late) continue;
      MarkGuess(sink.Add(unscale.call,
                         "Gradients are reduced over the workers behind this: each has looked for "
                         "inf in its own only, so one skips the step and the others take it, and "
                         "a clip in between limits parts. Reduce, then unscale."));
      break;
    }
  }
}

void Check(const FileFacts& facts, Sink& sink) {
  GuessReducedLate(facts, sink);
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
