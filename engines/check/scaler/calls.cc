// What calls do to a path: the rules of the order of a GradScaler's calls.
#include <algorithm>

#include "engines/check/facts/questions.h"
#include "engines/check/scaler/machine.h"

namespace mpnanny::check {
namespace {

bool Includes(const std::set<std::string>& all, const std::set<std::string>& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

// True if the gradients carry the loss scale. Who was unscaled and has stepped since is done with:
// these gradients are another's.
bool CarryScale(const Path& path) {
  return path.gradients == Gradients::kScaled && Includes(path.stepped, path.unscaled);
}

void Escape(Path& path) { path.escaped = true; }

}  // namespace

void ScalerMachine::Report(Violation::Kind kind, NodeId call, const Path& path,
                           const std::string& optimizer) {
  ReportAt(kind, Shown(call), &code() == &root_ ? call : kNoNode, path, optimizer);
}

void ScalerMachine::ReportAt(Violation::Kind kind, NodeId node, NodeId inner, const Path& path,
                             const std::string& optimizer) {
  if (path.escaped || path.unseen) return;
  found_.emplace(std::pair(static_cast<int>(kind), node),
                 // A name of a helper is told without the call that it belongs to.
                 Violation{kind, node, inner, path.scaler.substr(0, path.scaler.find('@')),
                           optimizer.substr(0, optimizer.find('@'))});
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
    const bool apex = with > syntax().FunctionOf(id) && syntax().Text(with).substr(0, 200).find(
                                                            "scale_loss") != std::string_view::npos;
    const std::optional<Target> own = framework ? code().TargetOf(id) : std::nullopt;
    if (own) return OnHelper(id, *own, std::move(in));
    // fabric.backward(scaler.scale(loss)): whose scaler it is is told. y.backward(scaler.scale(g))
    // is given a gradient, of a part of the model.
    const std::string_view who = syntax().Text(names().Receiver(id));
    const bool trainer = method == "manual_backward" || who == "self" || who.ends_with("fabric") ||
                         who.ends_with("accelerator");
    if (framework && trainer && !scalers().ScaledBy(first).empty())
      return OnBackward(id, first, std::move(in));
    if (framework || apex) return Each(std::move(in), Escape);
    return OnBackward(id, names().Receiver(id), std::move(in));
  }
  if (method == "zero_grad") return OnZeroGrad(id, std::move(in));
  if (method == "step" && IsOptimizer(names().Receiver(id))) {
    // No optimizer of torch takes a scaler: this is a wrapper, whose step() is the scaler's.
    if (IsHandedScaler(id)) return Each(std::move(in), Escape);
    return OnStep(id, std::move(in));
  }
  if (const GradientUse use = UseOfGradient(bindings(), id); use != GradientUse::kNone)
    return OnGradient(id, use, std::move(in));
  // x.grad.div_(scale): unscaled by hand.
  if (method.ends_with('_') &&
      syntax().Text(names().Receiver(id)).find(".grad") != std::string_view::npos)
    return Each(std::move(in), Escape);
  const std::optional<Target> target = code().TargetOf(id);
  if (IsClip(names(), id)) {
    // A clipping function of the project may unscale; else it is what its name says.
    const bool unscales = target && target->function != nullptr &&
                          target->code->syntax().Text(target->function->node).find("unscale") !=
                              std::string_view::npos;
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
  for (const NodeId argument : names().Arguments(call)) {
    const std::string key = names().Key(argument);
    if (!key.empty() && (scalers().IsScaler(key) || root_.scalers().IsScaler(Translate(key))))
      return true;
  }
  return false;
}

Paths ScalerMachine::OnBackward(NodeId id, NodeId loss, Paths in) {
  const bool beside = code().IsBesideScale(id);
  const bool known = IsKnownLoss(loss);
  return WithScale(loss, std::move(in), [&](Path& path, const std::string& scaler) {
    const bool scaled = !scaler.empty() && path.conditions.AssumeMixedPrecision();
    const bool seen = !path.unseen;
    if (path.unseen) {
      path.looked = true;  // perhaps
      // These gradients are new; whether update() has run on the older ones is not known.
      path.unscaled.clear();
      path.stepped.clear();
      path.used.clear();
      path.unseen = false;
    }
    const bool plain =
        known && scaler.empty() && !beside && path.conditions.Known(kMixedPrecision) != Tri::kNo;
    if (plain && seen && !path.pending.empty()) {
      path.mixed = Shown(id);
    } else if (scaled && seen && path.plain != kNoNode) {
      path.mixed = path.plain;
    }
    path.cleared.clear();
    path.gradients = scaled ? Gradients::kScaled : Gradients::kPlain;
    path.scaler = scaler;
    path.updated = false;
    path.after_step = false;
    path.stepped_since_backward.clear();
    path.early_clip = path.early_read = kNoNode;
    path.backward = Shown(id);
    path.plain = kNoNode;
    if (scaled) {
      path.pending.insert(scaler);
      path.awaiting.insert(path.backward);
      path.stale.merge(path.used);
    } else if (plain && path.pending.empty()) {
      path.plain = Shown(id);
      Report(Violation::Kind::kPlainLoss, id, path, "");
    }
    path.used.clear();
  });
}

bool ScalerMachine::IsKnownLoss(NodeId loss) const {
  const NodeId id = syntax().Unwrap(loss);
  if (syntax().Is(id, Kind::kCall)) {
    // loss.mean().backward()
    const NodeId receiver = names().Receiver(id);
    // _scale(loss).backward()
    if (receiver == kNoNode &&
        syntax().Text(syntax().Child(id, PythonFields().function)).find("scale") !=
            std::string_view::npos)
      return false;
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
    return Each(std::move(in), Escape);
  const auto limit = bindings().Number(names().Argument(id, method ? 0 : 1, "max_norm"));
  if (limit && *limit > 1e6) return in;  // only measures the norm
  // clip_grad_norm_(parameters, max_norm * scale): the limit carries the scale, too.
  for (const NodeId argument : names().Arguments(id)) {
    if (syntax().Text(argument).find("scale") != std::string_view::npos) return in;
  }
  return Each(std::move(in), [&](Path& path) {
    if (path.backward == kNoNode && path.unscaled.empty() && path.early_clip == kNoNode &&
        !path.unseen && !path.after_step && frames_.size() == 1)
      path.early_clip = id;
    if (path.gradients != Gradients::kScaled) return;
    if (path.after_step && Includes(path.stepped_since_backward, path.unscaled)) {
      Report(Violation::Kind::kClipAfterStep, id, path, "");
    } else if (CarryScale(path)) {
      Report(Violation::Kind::kClipScaled, id, path, "");
    }
  });
}

Paths ScalerMachine::OnGradient(NodeId id, GradientUse use, Paths in) {
  const bool by_hand = code().ComputesWithScale(syntax().FunctionOf(id)) ||
                       (frames_.size() > 1 && frames_.front().function != nullptr &&
                        root_.ComputesWithScale(frames_.front().function->node));
  return Each(std::move(in), [&](Path& path) {
    const bool scaled = CarryScale(path) && !path.after_step && !by_hand;
    const bool reads =
        use == GradientUse::kMeasure || use == GradientUse::kClamp || use == GradientUse::kShift;
    if (reads && path.backward == kNoNode && path.unscaled.empty() && !by_hand && !path.unseen &&
        path.early_read == kNoNode && !path.after_step)
      path.early_read = Shown(id);
    switch (use) {
      case GradientUse::kMeasure:
      case GradientUse::kClamp:
      case GradientUse::kShift:
        if (scaled) Report(Violation::Kind::kGradientsRead, id, path, "");
        break;
      case GradientUse::kReplace:
        if (scaled) Report(Violation::Kind::kNanReplaced, id, path, "");
        break;
      case GradientUse::kClear:
        ClearGradients(path);
        break;
      case GradientUse::kChange:
        path.escaped = true;
        break;
      case GradientUse::kNone:
        break;
    }
  });
}

// True for the scaler inside accelerator or fabric: the optimizers that it is used with are
// wrapped, and their step() is the scaler's.
static bool IsFrameworks(std::string_view scaler) {
  const size_t dot = scaler.rfind('.');
  if (dot == std::string_view::npos) return false;
  const std::string_view owner = scaler.substr(0, dot);
  return owner.find("accelerator") != std::string_view::npos ||
         owner.find("fabric") != std::string_view::npos;
}

Paths ScalerMachine::OnStep(NodeId id, Paths in) {
  // With a closure (L-BFGS, SAM) the step first computes gradients of its own.
  const NodeId closure = names().Argument(id, 0, "closure");
  if (closure != kNoNode && !syntax().Is(closure, Kind::kNone)) return in;
  const std::string optimizer = KeyOf(names().Receiver(id));
  // The other branch of scaler.step(): whatever is asked there, this is the way without scaling.
  const bool other = code().IsOtherStep(id);
  const bool by_hand = code().ComputesWithScale(syntax().FunctionOf(id));  // it may unscale
  return Each(std::move(in), [&](Path& path) {
    if (path.gradients != Gradients::kScaled) return;
    if (IsFrameworks(path.scaler)) {
      path.looked = true;
      return;
    }
    if (path.stepped_since_backward.contains(optimizer)) {
      Report(Violation::Kind::kPlainStepAfterScaler, id, path, optimizer);
    } else if (!path.unscaled.contains(optimizer) && !other && !by_hand) {
      Report(Violation::Kind::kPlainStepScaled, id, path, optimizer);
      if (!path.looked && path.unscaled.empty() && path.stepped.empty()) {
        path.plain_step = Shown(id);
        path.plain_stepped = optimizer;
      }
      path.looked = true;  // one mistake is told once
    }
  });
}

}  // namespace mpnanny::check
