// What the scaler's own methods do to a path, and what they say about gradients of before.
#include <algorithm>

#include "engines/check/facts/questions.h"
#include "engines/check/scaler/machine.h"

namespace mpnanny::check {
namespace {

// True if unscale_ was called on the optimizer, or on the element of a loop that it is, when a
// check left the iteration. (A loop that runs again for another reason may be a retry.)
bool IsUnscaled(const Path& path, const std::string& optimizer) {
  return path.unscaled.contains(optimizer) ||
         (path.skip != kNoNode && path.unscaled.contains("an element as " + optimizer + " again"));
}

}  // namespace

void ScalerMachine::ClearGradients(Path& path) {
  path.gradients = Gradients::kNone;
  path.after_step = false;
  path.plain = kNoNode;
  path.used.clear();
  path.stale.clear();
  path.pending.clear();
  path.divided.clear();
  path.mixed = kNoNode;
  path.early_clip = path.early_read = kNoNode;
}

Tri ScalerMachine::UnscalesOutside() const {
  const Function* function = frames_.front().function;
  const auto unscales = [](const Code& code, NodeId except) {
    const auto& calls = code.scalers().calls();
    return std::any_of(calls.begin(), calls.end(), [&](const ScalerCall& call) {
      return call.op == ScalerCall::Op::kUnscale && code.syntax().FunctionOf(call.call) != except;
    });
  };
  if (unscales(root_, function->node)) return Tri::kYes;
  const Codebase& all = root_.all();
  bool somewhere = false;
  bool called = false;
  for (size_t i = 0; i < all.modules().size(); ++i) {
    somewhere = somewhere || (i != root_.number() && unscales(all[i], kNoNode));
    const auto& edges = all.modules().Edges(i);
    called = called || std::any_of(edges.begin(), edges.end(), [&](const CallEdge& edge) {
               return edge.callee.function == function;
             });
  }
  // Who calls it is analysed along with it.
  return !somewhere ? Tri::kNo : called ? Tri::kYes : Tri::kUnknown;
}

std::string ScalerMachine::ServedBy(NodeId backward) const {
  const NodeId function = root_.syntax().FunctionOf(backward);
  for (const ScalerCall& call : root_.scalers().calls()) {
    const bool uses = call.op == ScalerCall::Op::kStep || call.op == ScalerCall::Op::kUnscale;
    if (uses && call.call > backward && root_.syntax().FunctionOf(call.call) == function)
      return call.optimizer;
  }
  return "";
}

void ScalerMachine::OnEarlyUse(const std::string& scaler, const std::string& optimizer,
                               Path& path) {
  if (path.early_clip == kNoNode && path.early_read == kNoNode) return;
  const Tri outside = path.unscaled.empty() ? UnscalesOutside() : Tri::kYes;
  if (outside != Tri::kYes && path.conditions.Known(kMixedPrecision) != Tri::kNo) {
    Path blamed = path;
    blamed.scaler = scaler;
    for (const auto& [kind, node] : {std::pair(Violation::Kind::kClipScaled, path.early_clip),
                                     std::pair(Violation::Kind::kGradientsRead, path.early_read)}) {
      if (node == kNoNode) continue;
      ReportAt(kind, node, node, blamed, optimizer);
      const auto it = found_.find(std::pair(static_cast<int>(kind), node));
      if (it != found_.end()) it->second.guess = outside == Tri::kUnknown;
    }
  }
  path.early_clip = path.early_read = kNoNode;
}

Paths ScalerMachine::OnZeroGrad(NodeId id, Paths in) {
  const bool optimizer = IsOptimizer(names().Receiver(id));
  const std::string cleared = optimizer ? KeyOf(names().Receiver(id)) : "";
  return Each(std::move(in), [&](Path& path) {
    for (std::set<NodeId>* set : {&path.awaiting, &path.outdated}) {
      std::erase_if(*set, [&](NodeId backward) {
        const std::string served = optimizer ? ServedBy(backward) : "";
        return served.empty() || served == cleared;
      });
    }
    ClearGradients(path);
    const NodeId kept = names().Argument(id, 0, "set_to_none");
    if (optimizer && (kept == kNoNode || syntax().Is(kept, Kind::kTrue)))
      path.cleared.insert(cleared);
  });
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
    if (call.op == ScalerCall::Op::kStep || call.op == ScalerCall::Op::kUnscale)
      stepped.insert(call.optimizer);
  }
  for (const Call* call : root_.names().CallsNamed("step")) {
    if (call->receiver == kNoNode) continue;
    const std::string key = root_.names().Key(call->receiver);
    if (root_.scalers().IsOptimizer(key)) stepped.insert(key);
  }
  return stepped.size() == 1;
}

void ScalerMachine::OnScalerUse(NodeId id, const std::string& scaler, const std::string& optimizer,
                                const Path& path) {
  if (path.gradients == Gradients::kPlain && path.plain != kNoNode && path.pending.empty()) {
    Path blamed = path;
    blamed.scaler = scaler;
    ReportAt(Violation::Kind::kPlainBackward, path.plain, path.plain, blamed, optimizer);
  }
  if (path.mixed != kNoNode && HasOneOptimizer()) {
    Path blamed = path;
    blamed.scaler = scaler;
    ReportAt(Violation::Kind::kPlainAdded, path.mixed, path.mixed, blamed, optimizer);
  }
  if (path.gradients == Gradients::kNone && path.cleared.contains(optimizer) && HasOneOptimizer() &&
      GoesBackwardLater(id)) {
    Path blamed = path;
    blamed.scaler = scaler;
    ReportAt(Violation::Kind::kStepOnNone, id, id, blamed, optimizer);
  }
  if (path.gradients != Gradients::kScaled) return;
  const auto made_here = [&](const std::string& key) { return root_.scalers().IsMadeHere(key); };
  if (!path.pending.contains(scaler) && path.scaler != scaler && made_here(scaler) &&
      made_here(path.scaler)) {
    Report(Violation::Kind::kOtherScaler, id, path, optimizer);
  } else if (path.updated && !path.stepped_since_backward.contains(optimizer) &&
             !path.stepped_since_backward.empty()) {
    Report(Violation::Kind::kUpdateBetween, id, path, optimizer);
  } else if (path.outdated.contains(path.backward) && ServedBy(path.backward) == optimizer) {
    Report(Violation::Kind::kUpdateBetween, id, path, optimizer);
  }
  if (path.stale.contains(optimizer))
    ReportAt(Violation::Kind::kStaleGradients, path.backward, path.backward, path, optimizer);
  if (path.pending.size() > 1 && std::all_of(path.pending.begin(), path.pending.end(), made_here)) {
    Report(Violation::Kind::kMixedScales, id, path, optimizer);
  }
}

Paths ScalerMachine::OnScaler(NodeId id, const ScalerCall& call, Paths in) {
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
        if (!optimizer.empty() && path.divided.contains(optimizer) &&
            path.gradients == Gradients::kScaled && !path.updated)
          Report(Violation::Kind::kUnscaledTwice, id, path, optimizer);
        if (!optimizer.empty()) {
          path.unscaled.insert(optimizer);
          path.divided.insert(optimizer);
        }
        path.early_clip = path.early_read = kNoNode;
        break;
      case ScalerCall::Op::kStep:
        OnEarlyUse(scaler, optimizer, path);
        OnScalerUse(id, scaler, optimizer, path);
        path.divided.erase(optimizer);
        std::erase_if(path.awaiting, [&](NodeId backward) {
          const std::string served = ServedBy(backward);
          return served.empty() || served == optimizer;
        });
        std::erase_if(path.outdated, [&](NodeId backward) {
          const std::string served = ServedBy(backward);
          return served.empty() || served == optimizer;
        });
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
        if (path.plain_step != kNoNode && path.unscaled.empty() && path.stepped.empty() &&
            names().Arguments(id).empty())
          ReportAt(Violation::Kind::kPlainStepUpdated, path.plain_step, path.plain_step, path,
                   path.plain_stepped);
        path.plain_step = kNoNode;
        path.plain_stepped.clear();
        path.looked = false;
        if (!path.stepped.empty()) {
          // Another scaler's losses are not touched.
          std::erase_if(path.awaiting, [&](NodeId backward) {
            const std::string by = root_.scalers().ScaledBy(backward);
            if (!by.empty() && by != scaler) return false;
            path.outdated.insert(backward);
            return true;
          });
        }
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
