// What calls do to a path: the rules of the GradScaler protocol.
#include <algorithm>

#include "tools/static_check/protocol_machine.h"
#include "tools/static_check/questions.h"

namespace mpnanny::static_check {
namespace {

bool Includes(const std::set<std::string>& all, const std::set<std::string>& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

// True if the gradients carry the loss scale. Who was unscaled and has stepped since is done with:
// these gradients are another's.
bool CarryScale(const Path& path) {
  return path.gradients == Gradients::kScaled && Includes(path.stepped, path.unscaled);
}

// True if unscale_ was called on the optimizer, or on the element of a loop that it is, when a
// check left the iteration. (A loop that runs again for another reason may be a retry.)
bool IsUnscaled(const Path& path, const std::string& optimizer) {
  return path.unscaled.contains(optimizer) ||
         (path.skip != kNoNode && path.unscaled.contains("an element as " + optimizer + " again"));
}

void ClearGradients(Path& path) {
  path.gradients = Gradients::kNone;
  path.after_step = false;
  path.plain = kNoNode;
  path.used.clear();
  path.stale.clear();
  path.pending.clear();
}

void Escape(Path& path) { path.escaped = true; }

}  // namespace

void ProtocolMachine::Report(Violation::Kind kind, NodeId call, const Path& path,
                             const std::string& optimizer) {
  ReportAt(kind, Shown(call), &code() == &root_ ? call : kNoNode, path, optimizer);
}

void ProtocolMachine::ReportAt(Violation::Kind kind, NodeId node, NodeId inner, const Path& path,
                               const std::string& optimizer) {
  if (path.escaped || path.unseen) return;
  found_.emplace(std::pair(static_cast<int>(kind), node),
                 Violation{kind, node, inner, path.scaler, optimizer});
}

Paths ProtocolMachine::RunCall(NodeId id, Paths in) {
  if (const ScalerCall* call = scalers().At(id)) return OnScaler(id, *call, std::move(in));
  const std::string_view method = names().Method(id);
  const std::string& callee = names().Callee(id);
  if (callee == "torch.autograd.backward")
    return OnBackward(id, names().Argument(id, 0, "tensors"), std::move(in));
  if (method == "backward" && callee.empty()) {
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
    if (framework || apex) return Each(std::move(in), Escape);
    return OnBackward(id, names().Receiver(id), std::move(in));
  }
  if (method == "zero_grad") return Each(std::move(in), ClearGradients);
  if (method == "step" && IsOptimizer(names().Receiver(id))) return OnStep(id, std::move(in));
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

Paths ProtocolMachine::OnBackward(NodeId id, NodeId loss, Paths in) {
  const bool beside = code().IsBesideScale(id);
  const bool known = IsKnownLoss(loss);
  return WithScale(loss, std::move(in), [&](Path& path, const std::string& scaler) {
    const bool scaled = !scaler.empty() && path.conditions.AssumeMixedPrecision();
    if (path.unseen) {
      path.looked = true;  // perhaps
      // These gradients are new; whether update() has run on the older ones is not known.
      path.unscaled.clear();
      path.stepped.clear();
      path.used.clear();
      path.unseen = false;
    }
    path.gradients = scaled ? Gradients::kScaled : Gradients::kPlain;
    path.scaler = scaler;
    path.updated = false;
    path.after_step = false;
    path.stepped_since_backward.clear();
    path.backward = Shown(id);
    path.plain = kNoNode;
    if (scaled) {
      path.pending.insert(scaler);
      path.stale.merge(path.used);
    } else if (known && scaler.empty() && !beside && path.pending.empty() &&
               path.conditions.Known(kMixedPrecision) != Tri::kNo) {
      path.plain = Shown(id);
      Report(Violation::Kind::kPlainLoss, id, path, "");
    }
    path.used.clear();
  });
}

bool ProtocolMachine::IsKnownLoss(NodeId loss) const {
  const NodeId id = syntax().Unwrap(loss);
  if (syntax().Is(id, Kind::kCall)) {
    // loss.mean().backward()
    const NodeId receiver = names().Receiver(id);
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

Paths ProtocolMachine::OnClip(NodeId id, Paths in) {
  const std::string receiver = KeyOf(names().Receiver(id));
  const bool method = names().Callee(id).empty() && !names().Method(id).empty();
  if (method && (receiver == "accelerator" || receiver.ends_with(".accelerator") ||
                 receiver.ends_with("fabric")))
    return Each(std::move(in), Escape);
  const auto limit = bindings().Number(names().Argument(id, method ? 0 : 1, "max_norm"));
  if (limit && *limit > 1e6) return in;  // only measures the norm
  return Each(std::move(in), [&](Path& path) {
    if (path.gradients != Gradients::kScaled) return;
    if (path.after_step && Includes(path.stepped_since_backward, path.unscaled)) {
      Report(Violation::Kind::kClipAfterStep, id, path, "");
    } else if (CarryScale(path)) {
      Report(Violation::Kind::kClipScaled, id, path, "");
    }
  });
}

Paths ProtocolMachine::OnGradient(NodeId id, GradientUse use, Paths in) {
  const bool by_hand = code().ComputesWithScale(syntax().FunctionOf(id)) ||
                       (frames_.size() > 1 && frames_.front().function != nullptr &&
                        root_.ComputesWithScale(frames_.front().function->node));
  return Each(std::move(in), [&](Path& path) {
    const bool scaled = CarryScale(path) && !path.after_step && !by_hand;
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

Paths ProtocolMachine::OnStep(NodeId id, Paths in) {
  const std::string optimizer = KeyOf(names().Receiver(id));
  // The other branch of scaler.step(): whatever is asked there, this is the way without scaling.
  const bool other = code().IsOtherStep(id);
  return Each(std::move(in), [&](Path& path) {
    if (path.gradients != Gradients::kScaled) return;
    if (path.stepped_since_backward.contains(optimizer)) {
      Report(Violation::Kind::kPlainStepAfterScaler, id, path, optimizer);
    } else if (!path.unscaled.contains(optimizer) && !other) {
      Report(Violation::Kind::kPlainStepScaled, id, path, optimizer);
      path.looked = true;  // one mistake is told once
    }
  });
}

void ProtocolMachine::OnScalerUse(NodeId id, const std::string& scaler,
                                  const std::string& optimizer, const Path& path) {
  if (path.gradients == Gradients::kPlain && path.plain != kNoNode && path.pending.empty()) {
    Path blamed = path;
    blamed.scaler = scaler;
    ReportAt(Violation::Kind::kPlainBackward, path.plain, path.plain, blamed, optimizer);
  }
  if (path.gradients != Gradients::kScaled) return;
  const auto made_here = [&](const std::string& key) { return root_.scalers().IsMadeHere(key); };
  if (!path.pending.contains(scaler) && path.scaler != scaler && made_here(scaler) &&
      made_here(path.scaler)) {
    Report(Violation::Kind::kOtherScaler, id, path, optimizer);
  } else if (path.updated && !path.stepped_since_backward.contains(optimizer) &&
             !path.stepped_since_backward.empty()) {
    Report(Violation::Kind::kUpdateBetween, id, path, optimizer);
  }
  if (path.stale.contains(optimizer))
    ReportAt(Violation::Kind::kStaleGradients, path.backward, path.backward, path, optimizer);
  if (path.pending.size() > 1 && std::all_of(path.pending.begin(), path.pending.end(), made_here)) {
    Report(Violation::Kind::kMixedScales, id, path, optimizer);
  }
}

Paths ProtocolMachine::OnScaler(NodeId id, const ScalerCall& call, Paths in) {
  const std::string scaler = Translate(call.scaler);
  const std::string optimizer = Translate(call.optimizer);
  return Each(std::move(in), [&](Path& path) {
    switch (call.op) {
      case ScalerCall::Op::kUnscale:
        OnScalerUse(id, scaler, optimizer, path);
        path.looked = true;
        if (path.stepped.contains(optimizer) && !path.unscaled.contains(optimizer)) {
          Report(Violation::Kind::kUnscaleAfterStep, id, path, optimizer);
          path.escaped = true;  // it raises: nothing that follows can happen
        }
        if (!optimizer.empty() && IsUnscaled(path, optimizer)) {
          if (path.skip == kNoNode) {
            Report(Violation::Kind::kDoubleUnscale, id, path, optimizer);
          } else {
            ReportAt(Violation::Kind::kSkippedUpdate, path.skip, path.skip, path, optimizer);
          }
          path.escaped = true;  // it raises: nothing that follows can happen
        }
        if (!optimizer.empty()) path.unscaled.insert(optimizer);
        break;
      case ScalerCall::Op::kStep:
        OnScalerUse(id, scaler, optimizer, path);
        if (!optimizer.empty() && path.stepped.contains(optimizer)) {
          Report(Violation::Kind::kStepWithoutUpdate, id, path, optimizer);
          path.escaped = true;  // it raises: nothing that follows can happen
        }
        path.stepped_since_backward.insert(optimizer);
        path.looked = path.after_step = true;
        if (!optimizer.empty()) {
          path.stepped.insert(optimizer);
          path.used.insert(optimizer);
        }
        break;
      case ScalerCall::Op::kUpdate:
        // update(new_scale) sets the scale and asks for nothing.
        if (path.gradients == Gradients::kScaled && !path.looked && !path.updated &&
            names().Arguments(id).empty()) {
          Report(Violation::Kind::kUpdateWithoutStep, id, path, "");
          path.escaped = true;  // it raises: nothing that follows can happen
        }
        path.looked = false;
        path.unscaled.clear();
        path.stepped.clear();
        path.skip = kNoNode;
        path.updated = path.moved = true;
        if (path.after_step) path.pending.clear();
        break;
      case ScalerCall::Op::kGetScale:
        if (path.moved && DividesScaled(id, path))
          Report(Violation::Kind::kScaleAfterUpdate, id, path, "");
        break;
      case ScalerCall::Op::kScale:
        path.moved = false;
        break;
      case ScalerCall::Op::kStateDict:
        break;
    }
  });
}

bool ProtocolMachine::DividesScaled(NodeId get_scale, const Path& path) const {
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

}  // namespace mpnanny::static_check
