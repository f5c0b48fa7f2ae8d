// What calls do to a path: the rules of the GradScaler protocol.
#include "tools/static_check/protocol.h"

#include <algorithm>

#include "tools/static_check/protocol_machine.h"

namespace mpnanny::static_check {

void ProtocolMachine::Report(Violation::Kind kind, NodeId call, const Path& path,
                             const std::string& optimizer) {
  if (path.escaped || path.unseen) return;
  const NodeId node = helper_call_ == kNoNode ? call : helper_call_;
  found_.emplace(std::pair(static_cast<int>(kind), node),
                 Violation{kind, node, call, path.scaler, optimizer});
}

void ProtocolMachine::Backward(Path& path, const std::string& scaler) {
  const bool scaled = !scaler.empty() && path.conditions.AssumeMixedPrecision();
  if (path.unseen) {
    // These gradients are new; whether update() has run on the older ones is not known.
    path.unscaled.clear();
    path.stepped.clear();
    path.unseen = false;
  }
  path.gradients = scaled ? Gradients::kScaled : Gradients::kPlain;
  path.scaler = scaler;
  path.updated = false;
  path.after_step = false;
  path.stepped_since_backward.clear();
}

Paths ProtocolMachine::Call(NodeId id, Paths in) {
  if (const ScalerCall* call = scalers_.At(id)) return OnScaler(id, *call, std::move(in));
  const std::string_view method = names_.Method(id);
  const std::vector<NodeId> arguments = names_.Arguments(id);
  const std::string callee = names_.Callee(id);
  if (callee == "torch.autograd.backward") {
    return WithScale(names_.Argument(id, 0, "tensors"), std::move(in), Backward);
  }
  if (method == "backward" && callee.empty()) {
    // accelerator.backward(loss), engine.backward(loss): the framework scales, and steps, as it
    // likes.
    const NodeId first = names_.Argument(id, 0, "");
    if (first != kNoNode && !syntax_.Is(first, Kind::kNone) && names_.Callee(first).empty()) {
      return Each(std::move(in), [](Path& path) { path.escaped = true; });
    }
    return WithScale(names_.Receiver(id), std::move(in), Backward);
  }
  if (IsClip(names_, id)) {
    const std::string receiver = KeyOf(names_.Receiver(id));
    if (callee.empty() && (receiver == "accelerator" || receiver.ends_with(".accelerator") ||
                           receiver.ends_with("fabric"))) {
      return Each(std::move(in), [](Path& path) { path.escaped = true; });
    }
    const auto limit = bindings_.Number(names_.Argument(id, callee.empty() ? 0 : 1, "max_norm"));
    if (limit && *limit > 1e6) return in;  // only measures the norm
    return Each(std::move(in), [&](Path& path) {
      if (path.gradients != Gradients::kScaled) return;
      const bool unscaled_since =
          !std::includes(path.stepped_since_backward.begin(), path.stepped_since_backward.end(),
                         path.unscaled.begin(), path.unscaled.end());
      if (path.after_step && !unscaled_since) {
        Report(Violation::Kind::kClipAfterStep, id, path, "");
      } else if (std::includes(path.stepped.begin(), path.stepped.end(), path.unscaled.begin(),
                               path.unscaled.end())) {
        // Who was unscaled and has stepped since is done with: these gradients are another's.

        Report(Violation::Kind::kClipScaled, id, path, "");
      }
    });
  }
  if (method == "zero_grad") {
    return Each(std::move(in), [](Path& path) {
      path.gradients = Gradients::kNone;
      path.after_step = false;
    });
  }
  if (method == "step") {
    const std::string optimizer = KeyOf(names_.Receiver(id));
    if (!scalers_.IsOptimizer(optimizer)) return in;
    return Each(std::move(in), [&](Path& path) {
      if (path.gradients == Gradients::kScaled && path.stepped_since_backward.contains(optimizer)) {
        Report(Violation::Kind::kPlainStepAfterScaler, id, path, optimizer);
      } else if (path.gradients == Gradients::kScaled && !path.unscaled.contains(optimizer)) {
        Report(Violation::Kind::kPlainStepScaled, id, path, optimizer);
      }
    });
  }
  // p.grad.div_(scale): unscaled by hand.
  if (method.ends_with('_') &&
      syntax_.Text(names_.Receiver(id)).find(".grad") != std::string_view::npos) {
    return Each(std::move(in), [](Path& path) { path.escaped = true; });
  }
  if (const Function* helper = bindings_.Callee(id)) {
    if (!reaches_.contains(helper->node)) return in;
    if (helper_call_ == kNoNode && matters_.contains(helper->node))
      return OnHelper(id, *helper, std::move(in));
    return Each(std::move(in), [](Path& path) { path.unseen = true; });  // too deep to follow
  }
  return OnUnseen(id, std::move(in));
}

Paths ProtocolMachine::OnScaler(NodeId id, const ScalerCall& call, Paths in) {
  const std::string scaler = Translate(call.scaler);
  const std::string optimizer = Translate(call.optimizer);
  return Each(std::move(in), [&](Path& path) {
    const bool uses = call.op == ScalerCall::Op::kUnscale || call.op == ScalerCall::Op::kStep;
    if (uses && path.gradients == Gradients::kScaled) {
      if (path.scaler != scaler && scalers_.IsMadeHere(scaler) &&
          scalers_.IsMadeHere(path.scaler)) {
        Report(Violation::Kind::kOtherScaler, id, path, optimizer);
      } else if (path.updated && !path.stepped_since_backward.contains(optimizer) &&
                 !path.stepped_since_backward.empty()) {
        Report(Violation::Kind::kUpdateBetween, id, path, optimizer);
      }
    }
    switch (call.op) {
      case ScalerCall::Op::kUnscale:
        if (!optimizer.empty() && !path.unscaled.insert(optimizer).second) {
          Report(Violation::Kind::kDoubleUnscale, id, path, optimizer);
        }
        break;
      case ScalerCall::Op::kStep:
        if (!optimizer.empty() && !path.stepped.insert(optimizer).second) {
          Report(Violation::Kind::kStepWithoutUpdate, id, path, optimizer);
        }
        path.stepped_since_backward.insert(optimizer);
        path.after_step = true;
        break;
      case ScalerCall::Op::kUpdate:
        path.unscaled.clear();
        path.stepped.clear();
        path.updated = true;
        break;
      case ScalerCall::Op::kGetScale:
      case ScalerCall::Op::kScale:
      case ScalerCall::Op::kStateDict:
        break;
    }
  });
}

Paths ProtocolMachine::OnHelper(NodeId id, const Function& helper, Paths in) {
  std::map<std::string, std::string> arguments;
  for (size_t i = 0; i < helper.parameters.size(); ++i) {
    std::string key = names_.Key(names_.Argument(id, static_cast<int>(i), helper.parameters[i]));
    if (!key.empty()) arguments.emplace(helper.parameters[i], std::move(key));
  }
  helper_call_ = id;
  arguments_.swap(arguments);
  // What is known of conditions is in the caller's words; the helper's are others.
  Flow flow = Block(helper.body, std::move(in));
  arguments_.swap(arguments);
  helper_call_ = kNoNode;
  Add(flow.out, flow.returns);
  return std::move(flow.out);
}

Paths ProtocolMachine::OnUnseen(NodeId id, Paths in) {
  if (names_.Callee(id).starts_with("mpnanny.")) return in;  // our monitor listens and does nothing
  bool escapes = false;
  for (const NodeId argument : names_.Arguments(id)) {
    const std::string key = KeyOf(argument);
    escapes = escapes || scalers_.IsScaler(names_.Key(argument)) || scalers_.IsScaler(key);
  }
  const bool unseen = MayUseSelf(id);
  if (!escapes && !unseen) return in;
  return Each(std::move(in), [&](Path& path) { (escapes ? path.escaped : path.unseen) = true; });
}

bool ProtocolMachine::MayUseSelf(NodeId call) const {
  const std::vector<ScalerCall>& calls = scalers_.calls();
  if (std::none_of(calls.begin(), calls.end(),
                   [](const ScalerCall& c) { return c.scaler.starts_with("self."); }))
    return false;
  // hooks.after_backward(self)
  for (const NodeId argument : names_.Arguments(call)) {
    if (syntax_.Text(argument) == "self") return true;
  }
  const NodeId receiver = names_.Receiver(call);
  if (syntax_.Is(receiver, Kind::kCall))
    return syntax_.Text(syntax_.Child(receiver, PythonFields().function)) == "super";
  if (syntax_.Text(receiver) != "self") return false;
  // An inherited method may; a module or a loss that is kept in self does not.
  for (const std::string_view name : {"model", "net", "network", "module", "encoder", "decoder",
                                      "criterion", "loss_fn", "loss_func", "loss_function"}) {
    if (names_.Method(call) == name) return false;
  }
  const std::vector<Assignment> values =
      bindings_.AssignmentsOf(syntax_.Child(call, PythonFields().function));
  return values.empty() || std::any_of(values.begin(), values.end(), [&](const Assignment& a) {
           const std::string_view text = syntax_.Text(a.value);
           return syntax_.Is(a.value, Kind::kLambda) || text.starts_with("self.") ||
                  text.find("partial(") != std::string_view::npos;
         });
}

bool IsClip(const Names& names, NodeId call) {
  const std::string qualified = names.Callee(call);
  const std::string_view name =
      qualified.empty() ? names.Method(call) : std::string_view(qualified);
  for (const std::string_view clip :
       {"clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "dispatch_clip_grad"}) {
    if (name == clip || (name.ends_with(clip) && name[name.size() - clip.size() - 1] == '.'))
      return true;
  }
  return false;
}

Protocol::Protocol(const Bindings& bindings, const Scalers& scalers, const CancelToken& cancel) {
  if (scalers.calls().empty()) return;
  ProtocolMachine machine(bindings, scalers, cancel);
  for (const Function& function : bindings.functions()) {
    if (machine.reaches(function) || function.node == 0) machine.Run(function, &violations_);
  }
  // A helper that is wrong by itself is reported there, once, and not at every call.
  std::vector<Violation> kept;
  for (const Violation& violation : violations_) {
    const bool inner_reported =
        violation.inner != violation.node &&
        std::any_of(violations_.begin(), violations_.end(), [&](const Violation& other) {
          return other.kind == violation.kind && other.node == violation.inner;
        });
    if (!inner_reported) kept.push_back(violation);
  }
  violations_ = std::move(kept);
}

}  // namespace mpnanny::static_check
