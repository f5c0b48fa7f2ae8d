#include <algorithm>
#include <string>
#include <vector>

#include "base/text.h"
#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::clip_before_unscale {
namespace {

// clip_grad_norm_(…) and what is called like a function for it: self.grad_clip_fn(parameters).
bool ClipsParameters(const FileFacts& facts, const Call& call) {
  const std::string_view name = call.name;
  if (!Holds(name, "clip") || (!Holds(name, "grad") && !Holds(name, "norm"))) return false;
  const std::string_view whole = facts.syntax.Text(call.node);
  if (Holds(whole, "master_params") || Holds(whole, "accelerator") || Holds(whole, "fabric"))
    return false;
  if (IsClip(facts.names, call.node) && call.method.empty()) return true;
  const std::vector<NodeId> arguments = facts.names.Arguments(call.node);
  return std::any_of(arguments.begin(), arguments.end(),
                     [&](NodeId argument) { return Holds(facts.syntax.Text(argument), "param"); });
}

// True if the function has a backward pass or a plain step of its own: the protocol knows what it
// clips, or nobody scales that.
bool HasBackward(const FileFacts& facts, NodeId function) {
  for (const Call& call : facts.names.calls()) {
    if (!IsInside(facts, call.node, function)) continue;
    if (const ScalerCall* scaler = facts.scalers.At(call.node); scaler != nullptr) {
      if (scaler->op == ScalerCall::Op::kScale) return true;
      continue;
    }
    if (call.method == "backward" && facts.scalers.ScaledBy(call.node).empty()) return true;
    if (call.method == "step" && call.receiver != kNoNode &&
        facts.scalers.IsOptimizer(facts.names.Key(call.receiver)))
      return true;
  }
  return false;
}

// True if the project scales losses with torch's scaler and unscales no gradients anywhere.
bool NobodyUnscales(const FileFacts& facts) {
  if (!facts.project.HasTorchScaler()) return false;
  bool scales = false;
  for (const FileFacts* file : *facts.files) {
    scales = scales || file->scalers.Has(ScalerCall::Op::kScale);
    if (Holds(file->syntax.text(), "unscale_")) return false;
  }
  return scales;
}

// True if an unscale_() stands between the clip and the last scale() above it: only conditions keep
// it from these gradients.
bool UnscalesBefore(const FileFacts& facts, const Violation& violation) {
  bool unscaled = false;
  for (const ScalerCall& call : facts.scalers.calls()) {
    if (call.call > violation.node ||
        facts.syntax.FunctionOf(call.call) != facts.syntax.FunctionOf(violation.node))
      continue;
    if (call.op == ScalerCall::Op::kScale) unscaled = false;
    if (call.op == ScalerCall::Op::kUnscale) unscaled = true;
  }
  return unscaled;
}

// A hook, a callback or a step of its own: scaled and stepped in other code.
void GuessElsewhere(const FileFacts& facts, Sink& sink) {
  for (const Call& call : facts.names.calls()) {
    if (!ClipsParameters(facts, call)) continue;
    const Function* function = facts.bindings.FunctionAt(facts.syntax.FunctionOf(call.node));
    if (function == nullptr || Holds(function->name, "clip")) continue;
    const std::vector<Violation>& told = facts.protocol->violations();
    if (std::any_of(told.begin(), told.end(), [&](const Violation& violation) {
          return (violation.kind == Violation::Kind::kClipScaled ||
                  violation.kind == Violation::Kind::kClipAfterStep) &&
                 (violation.node == call.node || violation.inner == call.node);
        }))
      continue;
    const bool nowhere = function->klass != kNoNode && NobodyUnscales(facts);
    // Other files unscale what they train; this one does not.
    const bool elsewhere =
        facts.project.HasTorchScaler() && !Holds(facts.syntax.text(), "unscale_") &&
        !Holds(facts.syntax.Text(function->node), "caler") && !facts.project.accelerate &&
        !facts.project.lightning && !facts.project.deepspeed;
    if (HasBackward(facts, function->node) || !(nowhere || elsewhere)) continue;
    if (!nowhere) {
      MarkGuess(sink.Add(call.node,
                         "The project trains with a GradScaler and this file unscales nothing: if "
                         "these gradients are scaled, their norm is too large by the loss scale."));
      continue;
    }
    MarkGuess(sink.Add(call.node,
                       "This project scales its loss and unscales gradients nowhere: where that is "
                       "on, this clips gradients that still carry the loss scale."));
  }
}

// True if something is called between the two that may unscale: a method of the object, or whoever
// is given it or the scaler.
bool MayUnscale(const FileFacts& facts, NodeId from, NodeId to, std::string_view scaler) {
  for (const Call& call : facts.names.calls()) {
    if (call.node <= from || call.node >= to || facts.scalers.At(call.node) != nullptr) continue;
    const std::string_view text = facts.syntax.Text(call.node);
    if (text.starts_with("self.") && Holds(text.substr(0, text.find('(')), "backward")) return true;
    for (const NodeId argument : facts.names.Arguments(call.node)) {
      const std::string_view given = facts.syntax.Text(argument);
      if (given == "self" || given == scaler) return true;
    }
  }
  return false;
}

// adaptive_grad_clip_(model.parameters()) and the like between scale() and step(), by their names.
void GuessOwnClip(const FileFacts& facts, Sink& sink) {
  if (facts.scalers.calls().empty()) return;
  for (const Call& call : facts.names.calls()) {
    if (!ClipsParameters(facts, call)) continue;
    if (IsClip(facts.names, call.node)) {
      // Where the protocol lost the path: by the order of the text alone.
      const std::string_view function = facts.syntax.Text(facts.syntax.FunctionOf(call.node));
      const std::vector<Violation>& told = facts.protocol->violations();
      if (HoldsAny(function, {"unscale", "get_scale", "found_inf"}) ||
          Holds(facts.syntax.Text(call.node), "inf") ||
          std::any_of(told.begin(), told.end(), [&](const Violation& violation) {
            return violation.node == call.node || violation.inner == call.node;
          }))
        continue;
    }
    const ScalerCall* last = nullptr;
    for (const ScalerCall& one : facts.scalers.calls()) {
      if (one.call < call.node &&
          facts.syntax.FunctionOf(one.call) == facts.syntax.FunctionOf(call.node) &&
          !ExcludeEachOther(facts, one.call, call.node))
        last = &one;
    }
    if (last == nullptr || last->op != ScalerCall::Op::kScale ||
        MayUnscale(facts, last->call, call.node, last->scaler))
      continue;
    MarkGuess(sink.Add(call.node, "By its name this clips gradients, and " + last->scaler +
                                      " has not unscaled them: it works on gradients that carry "
                                      "the loss scale."));
  }
}

// unscale_() under a condition that neither the clipping nor the scaler knows of.
void GuessCondition(const FileFacts& facts, Sink& sink) {
  const std::vector<ScalerCall>& calls = facts.scalers.calls();
  const std::vector<Violation>& told = facts.protocol->violations();
  for (const ScalerCall& unscale : calls) {
    if (unscale.op != ScalerCall::Op::kUnscale) continue;
    const NodeId branch = facts.syntax.Enclosing(unscale.call, Kind::kIf);
    const NodeId function = facts.syntax.FunctionOf(unscale.call);
    if (branch == kNoNode || branch < function) continue;
    const NodeId condition = facts.syntax.Child(branch, PythonFields().condition);
    if (HoldsAny(LowerCase(facts.syntax.Text(condition)),
                 {"scale", "amp", "16", "clip", "norm", "half", "precis", "grad", "step", "none",
                  "accum", "iter", "%", "update", "last", "sync", "mixed"}))
      continue;
    for (const Call& call : facts.names.calls()) {
      if (call.node < facts.syntax[branch].after || facts.syntax.FunctionOf(call.node) != function)
        continue;
      const ScalerCall* scaler = facts.scalers.At(call.node);
      if (scaler != nullptr && scaler->op != ScalerCall::Op::kGetScale) break;
      if (!IsClip(facts.names, call.node) ||
          std::any_of(told.begin(), told.end(),
                      [&](const Violation& v) { return v.node == call.node; }))
        continue;
      MarkGuess(sink.Add(call.node, "Unscaled only where " +
                                        std::string(facts.syntax.Text(condition).substr(0, 60)) +
                                        ", and clipped in any case."));
      break;
    }
  }
}

// Clipping above an unscale_() of the same function, in the order of the text; or unscaling above
// the backward pass whose gradients are meant.
void GuessOrder(const FileFacts& facts, Sink& sink) {
  if (!facts.scalers.Has(ScalerCall::Op::kUnscale)) return;
  const std::vector<ScalerCall>& calls = facts.scalers.calls();
  const std::vector<Violation>& told = facts.protocol->violations();
  const auto last_before = [&](NodeId node) {
    const ScalerCall* last = nullptr;
    for (const ScalerCall& one : calls) {
      if (one.call < node && facts.syntax.FunctionOf(one.call) == facts.syntax.FunctionOf(node) &&
          one.op != ScalerCall::Op::kGetScale && one.op != ScalerCall::Op::kStateDict &&
          !ExcludeEachOther(facts, one.call, node))
        last = &one;
    }
    return last;
  };
  for (const ScalerCall& unscale : calls) {
    if (unscale.op != ScalerCall::Op::kUnscale) continue;
    const ScalerCall* last = last_before(unscale.call);
    if (last != nullptr && last->op == ScalerCall::Op::kUnscale) continue;
    for (const Call& call : facts.names.calls()) {
      const NodeId from = last == nullptr ? 0 : last->call;
      if (call.node < from || call.node > unscale.call ||
          facts.syntax.FunctionOf(call.node) != facts.syntax.FunctionOf(unscale.call) ||
          !Holds(call.name, "clip") || !Holds(call.name, "grad") ||
          HoldsAny(call.name, {"log", "get", "config"}) ||
          ExcludeEachOther(facts, call.node, unscale.call) ||
          std::any_of(told.begin(), told.end(),
                      [&](const Violation& v) { return v.node == call.node; }))
        continue;
      MarkGuess(sink.Add(call.node, "Clips above " + unscale.scaler +
                                        ".unscale_(): what it limits still carries the scale."));
      break;
    }
    // unscale_() first, scale() and backward() after it, no step between them.
    if (last != nullptr && last->op == ScalerCall::Op::kScale) continue;
    for (const ScalerCall& next : calls) {
      if (next.call < unscale.call ||
          facts.syntax.FunctionOf(next.call) != facts.syntax.FunctionOf(unscale.call))
        continue;
      if (next.op == ScalerCall::Op::kStep || next.op == ScalerCall::Op::kUpdate) break;
      if (next.op != ScalerCall::Op::kScale || next.scaler != unscale.scaler ||
          ExcludeEachOther(facts, unscale.call, next.call))
        continue;
      MarkGuess(sink.Add(unscale.call,
                         "Unscaled before the backward pass below: the gradients that the step "
                         "takes are clipped by nobody, or those of the last iteration are."));
      break;
    }
  }
}

// True if whatever runs the clip also runs that step once, in the same turn of the loop: then the
// scaler exists there, and one unscale_() belongs to one step. Elsewhere a line of ours could meet a
// scaler that is None in FP32, or unscale every micro-batch, which raises.
bool IsSteppedAfter(const FileFacts& facts, NodeId clip, NodeId step) {
  const Syntax& syntax = facts.syntax;
  if (step < clip || syntax.FunctionOf(step) != syntax.FunctionOf(clip)) return false;
  const NodeId block = syntax[syntax.StatementOf(step)].parent;
  for (NodeId at = clip; at != block; at = syntax[at].parent) {
    const Kind kind = syntax.kind(at);
    if (at == kNoNode || kind == Kind::kFor || kind == Kind::kWhile || kind == Kind::kFunction) {
      return false;
    }
  }
  for (NodeId at = clip; at < step; ++at) {
    const Kind kind = syntax.kind(at);
    if (kind == Kind::kReturn || kind == Kind::kBreak || kind == Kind::kContinue) return false;
  }
  // A step within `a and scaler.step(…)` or `… if c else …` may not run.
  for (NodeId at = step; at != kNoNode && at != block; at = syntax[at].parent) {
    const Kind kind = syntax.kind(at);
    if (kind == Kind::kBoolean || kind == Kind::kConditional || kind == Kind::kLambda) return false;
  }
  return true;
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  ReportViolations(
      facts, Violation::Kind::kClipScaled, sink,
      [](const Violation& v) {
        return "Gradients are clipped while they still carry the loss scale: there is no " +
               v.scaler + ".unscale_(optimizer) between the backward pass and this call.";
      },
      [&](const Violation& v, RawFinding& finding) {
        if (UnscalesBefore(facts, v)) {
          // One more would raise RuntimeError where the other has run.
          finding.form = "unscale-before";
          return;
        }
        std::string optimizer;
        bool is_stepped = false;
        for (const ScalerCall& call : facts.scalers.calls()) {
          if (call.op != ScalerCall::Op::kStep || call.scaler != v.scaler) continue;
          if (!optimizer.empty() && optimizer != call.optimizer)
            return;  // which one is meant is not known
          optimizer = call.optimizer;
          is_stepped = is_stepped || IsSteppedAfter(facts, v.node, call.call);
        }
        if (is_stepped && !optimizer.empty())
          InsertLineBefore(facts, v.node, v.scaler + ".unscale_(" + optimizer + ")", finding);
      });
  ReportViolations(facts, Violation::Kind::kClipAfterStep, sink, [](const Violation& v) {
    return "Gradients are clipped after " + v.scaler +
           ".step() has used them: the clipping changes nothing.";
  });
  GuessElsewhere(facts, sink);
  GuessOwnClip(facts, sink);
  GuessOrder(facts, sink);
  GuessCondition(facts, sink);
}

}  // namespace mpnanny::static_check::clip_before_unscale
