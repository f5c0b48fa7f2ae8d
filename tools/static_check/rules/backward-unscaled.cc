#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::backward_unscaled {
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
    const std::string_view text = file->syntax.text();
    for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
      const NodeId id = file->syntax.At(static_cast<uint32_t>(at));
      if (!file->syntax.Is(id, Kind::kIdentifier) || file->syntax.Text(id) != name) continue;
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

// loss.backward() beside scaler.scale(loss).backward(), in one block: both run.
void GuessBoth(const FileFacts& facts, std::set<NodeId>* reported, Sink& sink) {
  const auto block = [&](NodeId node) {
    return facts.syntax[facts.syntax.StatementOf(node)].parent;
  };
  for (const struct Call* call : facts.names.CallsNamed("backward")) {
    if (call->receiver == kNoNode || !facts.scalers.ScaledBy(call->node).empty() ||
        reported->contains(call->node) || !facts.names.Arguments(call->node).empty())
      continue;
    for (const ScalerCall& scale : facts.scalers.calls()) {
      const NodeId assigned = facts.syntax[scale.call].parent;
      const bool renewed =  // loss = scaler.scale(loss)
          facts.syntax.Is(assigned, Kind::kAssignment) &&
          facts.syntax.Text(facts.syntax.Child(assigned, PythonFields().left)) ==
              facts.syntax.Text(call->receiver);
      if (renewed || scale.op != ScalerCall::Op::kScale || block(scale.call) != block(call->node) ||
          facts.syntax.Text(facts.names.Argument(scale.call, 0, "outputs")) !=
              facts.syntax.Text(call->receiver))
        continue;
      MarkGuess(
          sink.Add(call->node,
                   "The same loss goes backward unscaled and scaled: the gradients add up, and "
                   "unscaling divides both by the loss scale."));
      reported->insert(call->node);
      break;
    }
  }
}

// True if the function asks for the gradient of an input and reads it behind the backward pass:
// adversarial examples, saliency. The gradients of weights are by-products there.
bool IsForInput(const FileFacts& facts, NodeId backward) {
  const Fields& f = PythonFields();
  const Syntax& syntax = facts.syntax;
  const NodeId function = syntax.FunctionOf(backward);
  const auto is_read = [&](std::string_view input) {
    if (input.empty() || Holds(input, "param") || input == "p" || input == "model") return false;
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

// X.backward() of torch, not of a framework: no arguments that could be a loss.
bool IsPlainBackward(const FileFacts& facts, const struct Call& call) {
  return call.receiver != kNoNode && call.callee.empty() &&
         facts.names.Argument(call.node, 0, "gradient") == kNoNode &&
         facts.scalers.ScaledBy(call.node).empty();
}

// True if the value that goes backward was scaled before, here or by what it is made of.
bool IsScaledName(const FileFacts& facts, NodeId loss) {
  for (const Assignment& assignment : facts.bindings.AssignmentsOf(loss)) {
    const std::string_view value = facts.syntax.Text(assignment.value);
    if (assignment.value != kNoNode && Holds(value, "scale")) return true;
  }
  const std::string name = LowerCase(facts.syntax.Text(loss));
  return Holds(name, "scale");
}

// One loss of several goes backward without the scale that the others got.
void GuessOneOfSeveral(const FileFacts& facts, const std::set<NodeId>& reported, Sink& sink) {
  if (!facts.scalers.Has(ScalerCall::Op::kScale)) return;
  for (const struct Call* call : facts.names.CallsNamed("backward")) {
    if (!IsPlainBackward(facts, *call) || reported.contains(call->node) ||
        IsScaledName(facts, call->receiver))
      continue;
    const NodeId function = facts.syntax.FunctionOf(call->node);
    const auto beside = [&](NodeId other) {
      return facts.syntax.FunctionOf(other) == function &&
             !ExcludeEachOther(facts, other, call->node);
    };
    const std::vector<ScalerCall>& calls = facts.scalers.calls();
    const bool scales = std::any_of(calls.begin(), calls.end(), [&](const ScalerCall& one) {
      return one.op == ScalerCall::Op::kScale && beside(one.call) &&
             !SameText(facts, facts.names.Argument(one.call, 0, "outputs"), call->receiver);
    });
    // Something else may be trained beside it, without a scaler.
    const auto steps = facts.names.CallsNamed("step");
    const bool plain = std::any_of(steps.begin(), steps.end(), [&](const struct Call* step) {
      return step->receiver != kNoNode && facts.scalers.At(step->node) == nullptr &&
             Holds(LowerCase(facts.syntax.Text(step->receiver)), "opt") && beside(step->node);
    });
    if (function == 0 || !scales || plain) continue;
    MarkGuess(sink.Add(call->node,
                       "This loss goes backward as it is, another one in this function scaled: "
                       "where both meet one optimizer, this one's gradients are divided by a "
                       "scale that they never got, 65536 at the start."));
  }
}

// True if some name in the loss got its value in an FP16 region that is always on.
bool MadeUnderAutocast(const FileFacts& facts, NodeId loss) {
  const Syntax& syntax = facts.syntax;
  for (NodeId id = loss; id < syntax[loss].after; ++id) {
    if (!syntax.Is(id, Kind::kIdentifier)) continue;
    for (const Assignment& made : facts.bindings.AssignmentsOf(id)) {
      if (made.target > loss || syntax.FunctionOf(made.target) != syntax.FunctionOf(loss)) continue;
      const Autocast* region = facts.regions.At(made.target);
      if (region != nullptr && region->enabled == Tri::kYes && !region->foreign &&
          region->device != Device::kCpu && region->dtype != HalfType::kBf16)
        return true;
    }
  }
  return false;
}

// `if accumulate == 1: scaler.scale(loss).backward()`, `else: (loss / accumulate).backward()`: the
// branches differ in something else than the precision, which is FP16 in both.
void GuessOtherBranch(const FileFacts& facts, std::set<NodeId>* reported, Sink& sink) {
  const Syntax& syntax = facts.syntax;
  for (const struct Call* call : facts.names.CallsNamed("backward")) {
    if (!IsPlainBackward(facts, *call) || reported->contains(call->node) ||
        IsScaledName(facts, call->receiver) || !MadeUnderAutocast(facts, call->receiver))
      continue;
    for (const ScalerCall& scale : facts.scalers.calls()) {
      if (scale.op != ScalerCall::Op::kScale ||
          syntax.FunctionOf(scale.call) != syntax.FunctionOf(call->node) ||
          !ExcludeEachOther(facts, scale.call, call->node))
        continue;
      NodeId branch = syntax.Enclosing(call->node, Kind::kIf);
      while (branch != kNoNode && !IsInside(facts, scale.call, branch))
        branch = syntax.Enclosing(branch, Kind::kIf);
      const std::string asked =
          LowerCase(syntax.Text(syntax.Child(branch, PythonFields().condition)));
      if (branch == kNoNode ||
          HoldsAny(asked, {"amp", "16", "half", "precision", "scale", "mixed", "cuda", "gpu",
                           "device", "apex", "dtype", "cpu", "fp"}))
        continue;
      MarkGuess(sink.Add(call->node,
                         "The other branch scales this loss, which is FP16 in both: here small "
                         "gradients become zero. What is divided for accumulation is scaled like "
                         "any other loss."));
      reported->insert(call->node);
      break;
    }
  }
}

// A framework that owns the scaler, and a backward pass that goes round it.
void GuessPastFramework(const FileFacts& facts, Sink& sink) {
  const std::string_view text = facts.syntax.text();
  const bool accelerate = Holds(text, "Accelerator(");
  const bool deepspeed = Holds(text, "deepspeed.initialize");
  const bool lightning = Holds(text, "automatic_optimization") && Holds(text, "optimizers()");
  const bool fabric = Holds(text, "Fabric(");
  const bool wrapper = Holds(text, "optim_wrapper");
  if (!accelerate && !deepspeed && !lightning && !fabric && !wrapper) return;
  const auto owner = [&](NodeId function) -> const char* {
    const std::string_view body = facts.syntax.Text(function);
    if (accelerate && HoldsAny(body, {"accelerator", "ccelerat"})) return "accelerator.backward";
    if (lightning && HoldsAny(body, {"self.optimizers()"})) return "self.manual_backward";
    if (deepspeed && HoldsAny(body, {"engine", "deepspeed"})) return "engine.backward";
    if (fabric && Holds(body, "fabric")) return "fabric.backward";
    if (wrapper && Holds(body, "optim_wrapper")) return "optim_wrapper.backward";
    return nullptr;
  };
  for (const struct Call* call : facts.names.CallsNamed("backward")) {
    if (!IsPlainBackward(facts, *call) || IsScaledName(facts, call->receiver) ||
        HoldsAny(facts.names.Key(call->receiver), {"ccelerator", "engine", "fabric", "model"}))
      continue;
    const NodeId function = facts.syntax.FunctionOf(call->node);
    const char* proper = owner(function);
    if (proper == nullptr) continue;
    // The framework's own call stands in the other branch.
    const auto others = facts.names.CallsNamed("backward");
    if (std::any_of(others.begin(), others.end(), [&](const struct Call* other) {
          return other != call && facts.names.Argument(other->node, 0, "loss") != kNoNode &&
                 ExcludeEachOther(facts, other->node, call->node);
        }))
      continue;
    MarkGuess(sink.Add(call->node, std::string("Past ") + proper +
                                       "(): with FP16 chosen there this loss is not scaled, and "
                                       "the step divides its gradients by the loss scale."));
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  // With enabled=False nothing is ever scaled, and nothing is unscaled.
  const auto& made = facts.scalers.made();
  if (std::any_of(made.begin(), made.end(), [](const ScalerMade& m) { return m.enabled_false; }))
    return;
  GuessPastFramework(facts, sink);
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
  for (const Violation& v : facts.protocol->violations()) {
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
  GuessBoth(facts, &reported, sink);
  GuessOtherBranch(facts, &reported, sink);
  GuessOneOfSeveral(facts, reported, sink);
}

}  // namespace mpnanny::static_check::backward_unscaled
