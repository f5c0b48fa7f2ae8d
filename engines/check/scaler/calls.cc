// Which event a call is.
#include <algorithm>

#include "engines/check/facts/questions.h"
#include "engines/check/scaler/machine.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

// True for the scaler inside accelerator or fabric: the optimizers that it is used with are
// wrapped, and their step() is the scaler's.
bool IsFrameworks(std::string_view scaler) {
  const size_t dot = scaler.rfind('.');
  if (dot == std::string_view::npos) return false;
  return HoldsAny(scaler.substr(0, dot), {"accelerator", "fabric"});
}

// True if the scaler takes an optimizer's gradients.
bool IsUse(const ScalerCall& call) {
  return call.op == ScalerCall::Op::kStep || call.op == ScalerCall::Op::kUnscale;
}

}  // namespace

Event ScalerMachine::At(Event::Kind kind, NodeId id) const {
  Event event;
  event.kind = kind;
  event.node = Shown(id);
  event.inner = &code() == &root_ ? id : kNoNode;
  return event;
}

ScalerName ScalerMachine::Named(const std::string& scaler) const {
  return {scaler, root_.scalers().IsMadeHere(scaler)};
}

void ScalerMachine::Happen(const Event& event, Path& path) {
  std::vector<Violation> violations;
  Apply(event, path.state, &violations);
  for (Violation& violation : violations) {
    if (violation.guess) {
      const Tri outside = UnscalesOutside();
      if (outside == Tri::kYes || path.conditions.Known(kMixedPrecision) == Tri::kNo) continue;
      violation.guess = outside == Tri::kUnknown;
    }
    // A name of a helper is told without the call that it belongs to.
    for (std::string* name : {&violation.scaler, &violation.optimizer})
      name->resize(std::min(name->find('@'), name->size()));
    const std::pair key(static_cast<int>(violation.kind), violation.node);
    Violation& told = found_.try_emplace(key, violation).first->second;
    told.guess = told.guess || violation.guess;
  }
}

Paths ScalerMachine::Happen(const Event& event, Paths in) {
  return Each(std::move(in), [&](Path& path) { Happen(event, path); });
}

Paths ScalerMachine::RunCall(NodeId id, Paths in) {
  if (const ScalerCall* call = scalers().At(id)) return OnScaler(id, *call, std::move(in));
  const std::string_view method = names().Method(id);
  const std::string& callee = names().Callee(id);
  if (callee == "torch.autograd.backward")
    return OnBackward(id, names().Argument(id, 0, "tensors"), std::move(in));
  if ((method == "backward" || method == "manual_backward") && callee.empty()) {
    // accelerator.backward(loss), engine.backward(loss): the framework scales, and steps, as it
    // likes. `with amp.scale_loss(loss, optimizer) as scaled_loss` is apex.
    const NodeId first = names().Argument(id, 0, "");
    const bool framework =
        first != kNoNode && !syntax().Is(first, Kind::kNone) && names().Callee(first).empty();
    const NodeId with = syntax().Enclosing(id, Kind::kWith);
    const bool apex =
        with > syntax().FunctionOf(id) && Holds(syntax().Text(with).substr(0, 200), "scale_loss");
    const std::optional<Target> own = framework ? code().TargetOf(id) : std::nullopt;
    if (own) return OnHelper(id, *own, std::move(in));
    // fabric.backward(scaler.scale(loss)): whose scaler it is is told. y.backward(scaler.scale(g))
    // is given a gradient, of a part of the model.
    const std::string_view who = syntax().Text(names().Receiver(id));
    const bool trainer = method == "manual_backward" || who == "self" || who.ends_with("fabric") ||
                         who.ends_with("accelerator");
    if (framework && trainer && !scalers().ScaledBy(first).empty())
      return OnBackward(id, first, std::move(in));
    if (framework || apex) return Happen(Event::Kind::kEscape, id, std::move(in));
    return OnBackward(id, names().Receiver(id), std::move(in));
  }
  if (method == "zero_grad") return OnZeroGrad(id, std::move(in));
  if (method == "step" && IsOptimizer(names().Receiver(id))) {
    // No optimizer of torch takes a scaler: this is a wrapper, whose step() is the scaler's.
    if (IsHandedScaler(id)) return Happen(Event::Kind::kEscape, id, std::move(in));
    return OnStep(id, std::move(in));
  }
  if (const GradientUse use = UseOfGradient(bindings(), id))
    return OnGradient(id, *use, std::move(in));
  // x.grad.div_(scale): unscaled by hand.
  if (method.ends_with('_') && Holds(syntax().Text(names().Receiver(id)), ".grad"))
    return Happen(Event::Kind::kEscape, id, std::move(in));
  const std::optional<Target> target = code().TargetOf(id);
  if (IsClip(names(), id)) {
    // A clipping function of the project may unscale; else it is what its name says.
    const bool unscales = target && target->function != nullptr &&
                          Holds(target->code->syntax().Text(target->function->node), "unscale");
    if (!unscales) return OnClip(id, std::move(in));
  }
  if (target) return OnHelper(id, *target, std::move(in));
  return OnUnseen(id, std::move(in));
}

bool ScalerMachine::IsHandedScaler(NodeId call) const {
  for (const std::string_view name : {"scaler", "grad_scaler"}) {
    const NodeId given = names().Argument(call, -1, name);
    if (given != kNoNode && !syntax().Is(given, Kind::kNone)) return true;
  }
  const std::vector<NodeId> given = names().Arguments(call);
  return std::any_of(given.begin(), given.end(), [&](NodeId one) { return IsScaler(one); });
}

Paths ScalerMachine::OnBackward(NodeId id, NodeId loss, Paths in) {
  const bool unscaled = IsKnownLoss(loss) && !code().IsBesideScale(id);
  Event event = At(Event::Kind::kOtherBackward, id);
  event.pass = {event.node, ServedBy(event.node), root_.scalers().ScaledBy(event.node)};
  return WithScale(loss, std::move(in), [&](Path& path, const std::string& scaler) {
    event.scaler = Named(scaler);
    if (!scaler.empty() && path.conditions.AssumeMixedPrecision()) {
      event.kind = Event::Kind::kScaledBackward;
    } else if (scaler.empty() && unscaled && path.conditions.Known(kMixedPrecision) != Tri::kNo) {
      event.kind = Event::Kind::kUnscaledBackward;
    } else {
      event.kind = Event::Kind::kOtherBackward;
    }
    Happen(event, path);
  });
}

bool ScalerMachine::IsKnownLoss(NodeId loss) const {
  const NodeId id = syntax().Unwrap(loss);
  if (syntax().Is(id, Kind::kCall)) {
    // loss.mean().backward()
    const NodeId receiver = names().Receiver(id);
    // _scale(loss).backward()
    if (receiver == kNoNode && Holds(code().FunctionText(id), "scale")) return false;
    return receiver == kNoNode || names().Key(receiver).find('.') != std::string::npos ||
           names().Key(receiver).empty() || IsKnownLoss(receiver);
  }
  if (!syntax().Is(id, Kind::kIdentifier)) return names().Key(id).empty();
  // On another path it is scaled; whether this one can happen is not known.
  if (code().IsScaledSomewhere(syntax().FunctionOf(id), syntax().Text(id))) return false;
  // A parameter may have been scaled by the caller.
  const std::string key = KeyOf(id);
  if (frames_.size() > 1 && key.find('@') != std::string::npos) return true;
  const Function* function = frames_.front().function;
  if (function == nullptr) return false;
  return function->node == 0 ? !root_.bindings().AssignmentsOf(id).empty()
                             : root_.Local(function->node, key) != nullptr;
}

Paths ScalerMachine::OnClip(NodeId id, Paths in) {
  const std::string receiver = KeyOf(names().Receiver(id));
  const bool method = names().Callee(id).empty() && !names().Method(id).empty();
  if (method && (receiver == "accelerator" || receiver.ends_with(".accelerator") ||
                 receiver.ends_with("fabric")))
    return Happen(Event::Kind::kEscape, id, std::move(in));
  const auto limit = bindings().Number(names().Argument(id, method ? 0 : 1, "max_norm"));
  if (limit && *limit > 1e6) return in;  // only measures the norm
  // clip_grad_norm_(parameters, max_norm * scale): the limit carries the scale, too.
  for (const NodeId argument : names().Arguments(id)) {
    if (Holds(syntax().Text(argument), "scale")) return in;
  }
  return Happen(Event::Kind::kClip, id, std::move(in));
}

Paths ScalerMachine::OnGradient(NodeId id, Event::Kind use, Paths in) {
  // Gradients that are given back their size by hand may be read.
  const Function* outer = frames_.front().function;
  const bool by_hand =
      code().ComputesWithScale(syntax().FunctionOf(id)) ||
      (frames_.size() > 1 && outer != nullptr && root_.ComputesWithScale(outer->node));
  if (by_hand && (use == Event::Kind::kRead || use == Event::Kind::kReplace)) return in;
  return Happen(use, id, std::move(in));
}

Paths ScalerMachine::OnStep(NodeId id, Paths in) {
  // With a closure (L-BFGS, SAM) the step first computes gradients of its own.
  const NodeId closure = names().Argument(id, 0, "closure");
  if (closure != kNoNode && !syntax().Is(closure, Kind::kNone)) return in;
  const bool excused = code().IsOtherStep(id) || code().ComputesWithScale(syntax().FunctionOf(id));
  Event event = At(excused ? Event::Kind::kExcusedStep : Event::Kind::kPlainStep, id);
  event.optimizer = KeyOf(names().Receiver(id));
  return Each(std::move(in), [&](Path& path) {
    Event step = event;
    if (IsFrameworks(path.state.scaler.name)) step.kind = Event::Kind::kWrappedStep;
    Happen(step, path);
  });
}

Paths ScalerMachine::OnZeroGrad(NodeId id, Paths in) {
  const NodeId to_none = names().Argument(id, 0, "set_to_none");
  const bool fills = to_none != kNoNode && !syntax().Is(to_none, Kind::kTrue);
  Event event = At(fills ? Event::Kind::kZeroFill : Event::Kind::kZeroGrad, id);
  if (IsOptimizer(names().Receiver(id))) event.optimizer = KeyOf(names().Receiver(id));
  return Happen(event, std::move(in));
}

Paths ScalerMachine::OnScaler(NodeId id, const ScalerCall& call, Paths in) {
  using enum Event::Kind;
  constexpr Event::Kind kKinds[] = {kScale, kUnscale, kStep, kUpdate, kUpdate, kReadScale};
  if (call.op == ScalerCall::Op::kStateDict) return in;
  Event event = At(kKinds[static_cast<size_t>(call.op)], id);
  event.scaler = Named(Translate(call.scaler));
  event.optimizer = Translate(call.optimizer);
  event.one_optimizer = HasOneOptimizer();
  event.before_backward = event.one_optimizer && GoesBackwardLater(id);
  if (call.op == ScalerCall::Op::kUpdate && !names().Arguments(id).empty())
    event.kind = Event::Kind::kSetScale;
  return Each(std::move(in), [&](Path& path) {
    if (call.op != ScalerCall::Op::kGetScale || DividesScaled(id, path)) Happen(event, path);
  });
}

Tri ScalerMachine::UnscalesOutside() const {
  const Function* function = frames_.front().function;
  const auto unscales = [&](const Code& code) {
    const auto& calls = code.scalers().calls();
    return std::any_of(calls.begin(), calls.end(), [&](const ScalerCall& call) {
      return call.op == ScalerCall::Op::kUnscale &&
             (&code != &root_ || code.syntax().FunctionOf(call.call) != function->node);
    });
  };
  if (unscales(root_)) return Tri::kYes;
  const Codebase& all = root_.all();
  bool somewhere = false;
  bool called = false;
  for (size_t i = 0; i < all.modules().size(); ++i) {
    somewhere = somewhere || unscales(all[i]);
    const auto& edges = all.modules().Edges(i);
    called = called || std::any_of(edges.begin(), edges.end(), [&](const CallEdge& edge) {
               return edge.callee.function == function;
             });
  }
  // Who calls it is analysed along with it.
  return !somewhere ? Tri::kNo : called ? Tri::kYes : Tri::kUnknown;
}

std::string ScalerMachine::ServedBy(NodeId backward) const {
  for (const ScalerCall* call : root_.CallsIn(root_.syntax().FunctionOf(backward))) {
    if (call->call > backward && IsUse(*call)) return call->optimizer;
  }
  return "";
}

bool ScalerMachine::GoesBackwardLater(NodeId node) const {
  if (frames_.size() > 1) return false;
  const Syntax& tree = root_.syntax();
  bool later = false;
  for (const Call* call : root_.names().CallsNamed("backward")) {
    if (tree.FunctionOf(call->node) != tree.FunctionOf(node)) continue;
    if (call->node < node) return false;
    later =
        later || tree[tree.StatementOf(call->node)].parent == tree[tree.StatementOf(node)].parent;
  }
  return later;
}

bool ScalerMachine::HasOneOptimizer() const {
  std::set<std::string> stepped;
  for (const ScalerCall& call : root_.scalers().calls()) {
    if (IsUse(call)) stepped.insert(call.optimizer);
  }
  for (const Call* call : root_.names().CallsNamed("step")) {
    const std::string key = root_.names().Key(call->receiver);
    if (root_.scalers().IsOptimizer(key)) stepped.insert(key);
  }
  return stepped.size() == 1;
}

bool ScalerMachine::DividesScaled(NodeId get_scale, const Path& path) const {
  const Fields& f = PythonFields();
  const auto divides = [&](NodeId binary) {
    return syntax().Is(binary, Kind::kBinary) &&
           syntax().Text(syntax().Child(binary, f.operator_)) == "/" &&
           !ScalerOf(syntax().Child(binary, f.left), path).empty();
  };
  const NodeId parent = syntax()[get_scale].parent;
  if (divides(parent) && syntax().Child(parent, f.right) == get_scale) return true;
  // scale = scaler.get_scale() and, further down, loss.item() / scale.
  NodeId assignment = parent;
  if (syntax().Is(assignment, Kind::kConditional)) assignment = syntax()[assignment].parent;
  if (!syntax().Is(assignment, Kind::kAssignment)) return false;
  const std::string_view name = syntax().Text(syntax().Child(assignment, f.left));
  const NodeId block = syntax()[syntax().StatementOf(assignment)].parent;
  for (NodeId id = assignment; id < syntax()[block].after; ++id) {
    if (divides(id) && syntax().Text(syntax().Child(id, f.right)) == name) return true;
  }
  return false;
}

}  // namespace mpnanny::check
