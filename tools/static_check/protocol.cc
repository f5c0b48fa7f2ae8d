#include "tools/static_check/protocol.h"

#include <algorithm>
#include <compare>
#include <map>
#include <set>

#include "tools/static_check/conditions.h"

namespace mpnanny::static_check {
namespace {

// Bounds on the work for one function; past them it stays silent.
constexpr size_t kMaxPaths = 48;
constexpr int kMaxSteps = 60000;

enum class Gradients { kNone, kScaled, kPlain };

// What is known at one point of one path.
struct Path {
  Gradients gradients = Gradients::kNone;
  bool escaped = false;     // somebody unseen may have unscaled, clipped or stepped
  bool updated = false;     // update() since the last backward
  bool after_step = false;  // the gradients were used by a step and not cleared since
  std::string scaler;       // who scaled the gradients
  std::set<std::string> unscaled, stepped;  // optimizers, since the last update()
  std::set<std::string> stepped_since_backward;
  std::map<std::string, std::string> scaled_values;  // variable -> scaler that scaled it
  Conditions conditions;
  auto operator<=>(const Path&) const = default;
};

using Paths = std::set<Path>;

struct Flow {
  Paths out, breaks, continues, returns;
};

class Machine {
 public:
  Machine(const Bindings& bindings, const Scalers& scalers, const CancelToken& cancel)
      : bindings_(bindings),
        syntax_(bindings.syntax()),
        names_(bindings.names()),
        scalers_(scalers),
        cancel_(cancel) {
    for (const Function& function : bindings.functions()) {
      if (Matters(function)) matters_.insert(function.node);
    }
  }

  void Run(const Function& function, std::vector<Violation>* violations) {
    found_.clear();
    steps_ = 0;
    Block(function.body, {Path{}});
    if (steps_ >= kMaxSteps) return;
    for (const auto& [key, violation] : found_) violations->push_back(violation);
  }

  bool matters(const Function& function) const { return matters_.contains(function.node); }

 private:
  // True if the function does anything that the protocol knows.
  bool Matters(const Function& function) const {
    const NodeId end = syntax_[function.node].after;
    for (NodeId id = function.body; id < end; ++id) {
      if (syntax_[id].kind != Kind::kCall || syntax_.FunctionOf(id) != function.node) continue;
      const std::string_view method = names_.Method(id);
      if (scalers_.At(id) != nullptr || method == "backward" || method == "zero_grad" ||
          IsClip(names_, id) ||
          (method == "step" && scalers_.IsOptimizer(names_.Key(names_.Receiver(id))))) {
        return true;
      }
    }
    return false;
  }

  // A key of the code that runs, in terms of the function that is analysed (a helper's parameter is
  // its argument).
  std::string KeyOf(NodeId expression) const { return Translate(names_.Key(expression)); }
  std::string Translate(std::string key) const {
    if (key.empty() || arguments_.empty()) return key;
    const size_t end = key.find_first_of(".[");
    const auto it = arguments_.find(key.substr(0, end));
    if (it == arguments_.end()) return key;
    return end == std::string::npos ? it->second : it->second + key.substr(end);
  }

  void Report(Violation::Kind kind, NodeId call, const Path& path, const std::string& optimizer) {
    if (path.escaped) return;
    const NodeId node = helper_call_ == kNoNode ? call : helper_call_;
    found_.emplace(std::pair(static_cast<int>(kind), node),
                   Violation{kind, node, call, path.scaler, optimizer});
  }

  static void Limit(Paths& paths) {
    if (paths.size() <= kMaxPaths) return;
    Paths fewer;
    for (Path path : paths) {
      path.conditions.Clear();
      // Without the conditions impossible combinations look possible: such a path must not accuse
      // anybody.
      path.escaped = true;
      fewer.insert(std::move(path));
      if (fewer.size() == kMaxPaths) break;
    }
    paths = std::move(fewer);
  }

  static void Add(Paths& into, const Paths& from) { into.insert(from.begin(), from.end()); }

  Flow Block(NodeId block, Paths in) {
    Flow flow{std::move(in), {}, {}, {}};
    if (block == kNoNode) return flow;
    for (const NodeId statement : syntax_.Children(block)) {
      if (flow.out.empty() || steps_ >= kMaxSteps || cancel_.stop_requested()) break;
      steps_ += static_cast<int>(flow.out.size());
      Flow next = Statement(statement, std::move(flow.out));
      flow.out = std::move(next.out);
      Limit(flow.out);
      Add(flow.breaks, next.breaks);
      Add(flow.continues, next.continues);
      Add(flow.returns, next.returns);
    }
    return flow;
  }

  Flow Statement(NodeId id, Paths in) {
    const Fields& f = PythonFields();
    switch (syntax_[id].kind) {
      case Kind::kFunction:
      case Kind::kClass:
      case Kind::kDecorated:
        return {std::move(in), {}, {}, {}};
      case Kind::kIf:
        return If(id, std::move(in));
      case Kind::kFor:
      case Kind::kWhile:
        return Loop(id, std::move(in));
      case Kind::kTry: {
        Flow flow = Block(syntax_.Child(id, f.body), in);
        Paths before = in;
        Add(before, flow.out);
        for (const NodeId part : syntax_.Children(id)) {
          if (syntax_[part].field == f.body) continue;
          const bool always =
              !syntax_.Is(part, Kind::kExcept);  // else and finally run after the body
          for (const NodeId inner : syntax_.Children(part)) {
            if (!syntax_.Is(inner, Kind::kBlock)) continue;
            Flow other = Block(inner, always ? flow.out : before);
            always ? (void)(flow.out = other.out) : Add(flow.out, other.out);
            Add(flow.breaks, other.breaks);
            Add(flow.continues, other.continues);
            Add(flow.returns, other.returns);
          }
        }
        return flow;
      }
      case Kind::kWith: {
        for (const NodeId part : syntax_.Children(id)) {
          if (syntax_[part].field != f.body) in = Expression(part, std::move(in));
        }
        return Block(syntax_.Child(id, f.body), std::move(in));
      }
      case Kind::kMatch: {
        Flow all{in, {}, {}, {}};
        for (NodeId clause = id; clause < syntax_[id].after; ++clause) {
          if (syntax_[clause].kind != Kind::kCaseClause) continue;
          Flow one = Block(syntax_.Child(clause, f.consequence), in);
          Add(all.out, one.out);
          Add(all.breaks, one.breaks);
          Add(all.continues, one.continues);
          Add(all.returns, one.returns);
        }
        return all;
      }
      case Kind::kReturn:
        return {{}, {}, {}, Expression(id, std::move(in))};
      case Kind::kRaise:
        return {};
      case Kind::kBreak:
        return {{}, std::move(in), {}, {}};
      case Kind::kContinue:
        return {{}, {}, std::move(in), {}};
      default:
        return {Expression(id, std::move(in)), {}, {}, {}};
    }
  }

  // Splits paths by a condition that holds or does not.
  void Split(NodeId condition, const Paths& in, Paths* yes, Paths* no) const {
    for (const Path& path : in) {
      const Tri known = path.conditions.Evaluate(syntax_, condition);
      if (known != Tri::kNo) {
        Path taken = path;
        taken.conditions.Assume(syntax_, condition, true);
        yes->insert(std::move(taken));
      }
      if (known != Tri::kYes) {
        Path other = path;
        other.conditions.Assume(syntax_, condition, false);
        no->insert(std::move(other));
      }
    }
  }

  Flow If(NodeId id, Paths in) {
    const Fields& f = PythonFields();
    Flow flow;
    const auto take = [&](NodeId body, Paths paths) {
      Flow one = Block(body, std::move(paths));
      Add(flow.out, one.out);
      Add(flow.breaks, one.breaks);
      Add(flow.continues, one.continues);
      Add(flow.returns, one.returns);
    };
    const NodeId condition = syntax_.Child(id, f.condition);
    Paths yes;
    Paths no;
    Split(condition, Expression(condition, std::move(in)), &yes, &no);
    take(syntax_.Child(id, f.consequence), std::move(yes));
    for (const NodeId part : syntax_.Children(id)) {
      if (syntax_[part].field != f.alternative) continue;
      if (syntax_.Is(part, Kind::kElif)) {
        const NodeId other = syntax_.Child(part, f.condition);
        Paths rest = std::move(no);
        yes.clear();
        no.clear();
        Split(other, Expression(other, std::move(rest)), &yes, &no);
        take(syntax_.Child(part, f.consequence), std::move(yes));
      } else {
        take(syntax_.Child(part, f.body), std::move(no));
        no.clear();
      }
    }
    Add(flow.out, no);
    return flow;
  }

  Flow Loop(NodeId id, Paths in) {
    const Fields& f = PythonFields();
    const bool is_for = syntax_[id].kind == Kind::kFor;
    in = Expression(syntax_.Child(id, is_for ? f.right : f.condition), std::move(in));
    Flow flow;
    Paths entering = in;
    for (int round = 0; round < 2; ++round) {
      Paths start;
      for (Path path : entering) {
        if (is_for) Rebind(syntax_.Child(id, f.left), path);
        start.insert(std::move(path));
      }
      Flow body = Block(syntax_.Child(id, f.body), std::move(start));
      entering = std::move(body.out);
      Add(entering, body.continues);
      Limit(entering);
      Add(flow.out, entering);
      Add(flow.out, body.breaks);
      Add(flow.returns, body.returns);
    }
    // A loop is taken to run: `for o in optimizers: scaler.unscale_(o)` does unscale.
    if (flow.out.empty()) flow.out = std::move(in);
    Limit(flow.out);
    return flow;
  }

  // A variable that gets another value is another object: nothing is known of it.
  void Rebind(NodeId target, Path& path) const {
    const Kind kind = syntax_.kind(target);
    if (kind == Kind::kPatternList || kind == Kind::kTuple || kind == Kind::kList) {
      for (const NodeId part : syntax_.Children(target)) Rebind(part, path);
      return;
    }
    const std::string key = KeyOf(target);
    if (key.empty()) return;
    path.conditions.Forget(key);
    path.scaled_values.erase(key);
    for (std::set<std::string>* set :
         {&path.unscaled, &path.stepped, &path.stepped_since_backward}) {
      std::erase_if(*set, [&](const std::string& name) {
        return name == key || name.starts_with(key + ".") || name.starts_with(key + "[") ||
               name.find("[" + key + "]") != std::string::npos;
      });
    }
  }

  // Runs the calls of an expression, inner ones first.
  Paths Expression(NodeId id, Paths in) {
    if (id == kNoNode || in.empty()) return in;
    const Kind kind = syntax_[id].kind;
    if (kind == Kind::kLambda || kind == Kind::kFunction) return in;
    const Fields& f = PythonFields();
    if (kind == Kind::kConditional && !scalers_.ScaledBy(id).empty())
      return in;  // judged by what it is used for
    for (const NodeId child : syntax_.Children(id)) in = Expression(child, std::move(in));
    if (kind == Kind::kCall) return Call(id, std::move(in));
    if (kind == Kind::kAssignment || kind == Kind::kAugmentedAssignment ||
        kind == Kind::kNamedExpression) {
      const NodeId target = syntax_.Child(id, kind == Kind::kNamedExpression ? f.name : f.left);
      const NodeId value = syntax_.Child(id, kind == Kind::kNamedExpression ? f.value : f.right);
      const bool writes_gradient = syntax_.Text(target).find(".grad") != std::string_view::npos;
      return WithScale(value, std::move(in), [&](Path& path, const std::string& scaler) {
        if (writes_gradient) path.escaped = true;
        const bool keeps =
            kind == Kind::kAugmentedAssignment && path.scaled_values.contains(KeyOf(target));
        const std::string before = keeps ? path.scaled_values[KeyOf(target)] : "";
        Rebind(target, path);
        const std::string& by = scaler.empty() ? before : scaler;
        if (const std::string key = KeyOf(target); !key.empty() && !by.empty())
          path.scaled_values[key] = by;
      });
    }
    return in;
  }

  // Calls `apply(path, scaler)` with the scaler that scaled `value` on that path ("" for none);
  // splits paths where `value` is `scaler.scale(loss) if use_amp else loss`.
  template <typename Apply>
  Paths WithScale(NodeId value, Paths in, Apply apply) const {
    const NodeId id = syntax_.Unwrap(value);
    Paths out;
    if (syntax_.Is(id, Kind::kConditional) && !scalers_.ScaledBy(id).empty()) {
      const std::vector<NodeId> parts = syntax_.Children(id);
      if (parts.size() == 3) {
        Paths yes;
        Paths no;
        Split(parts[1], in, &yes, &no);
        for (const Path& path : WithScale(parts[0], yes, apply)) out.insert(path);
        for (const Path& path : WithScale(parts[2], no, apply)) out.insert(path);
        return out;
      }
    }
    const std::string direct = Translate(scalers_.ScaledBy(id));
    const std::string key = KeyOf(id);
    for (Path path : in) {
      std::string scaler = direct;
      if (const auto it = path.scaled_values.find(key);
          scaler.empty() && it != path.scaled_values.end())
        scaler = it->second;
      apply(path, scaler);
      out.insert(std::move(path));
    }
    return out;
  }

  template <typename Apply>
  static Paths Each(Paths in, Apply apply) {
    Paths out;
    for (Path path : in) {
      apply(path);
      out.insert(std::move(path));
    }
    return out;
  }

  static void Backward(Path& path, const std::string& scaler) {
    const bool scaled = !scaler.empty() && path.conditions.AssumeMixedPrecision();
    path.gradients = scaled ? Gradients::kScaled : Gradients::kPlain;
    path.scaler = scaler;
    path.updated = false;
    path.after_step = false;
    path.stepped_since_backward.clear();
  }

  Paths Call(NodeId id, Paths in);
  Paths OnScaler(NodeId id, const ScalerCall& call, Paths in);
  Paths OnHelper(NodeId id, const Function& helper, Paths in);
  Paths OnUnseen(NodeId id, Paths in);

  const Bindings& bindings_;
  const Syntax& syntax_;
  const Names& names_;
  const Scalers& scalers_;
  const CancelToken& cancel_;
  std::set<NodeId> matters_;
  int steps_ = 0;
  NodeId helper_call_ = kNoNode;                  // set while a helper's body is run
  std::map<std::string, std::string> arguments_;  // the helper's parameters
  std::map<std::pair<int, NodeId>, Violation> found_;
};

Paths Machine::Call(NodeId id, Paths in) {
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
      } else if (path.unscaled.empty()) {
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
  if (helper_call_ == kNoNode) {
    const Function* helper = bindings_.Callee(id);
    if (helper != nullptr)
      return matters_.contains(helper->node) ? OnHelper(id, *helper, std::move(in)) : in;
  }
  return OnUnseen(id, std::move(in));
}

Paths Machine::OnScaler(NodeId id, const ScalerCall& call, Paths in) {
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

Paths Machine::OnHelper(NodeId id, const Function& helper, Paths in) {
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

Paths Machine::OnUnseen(NodeId id, Paths in) {
  bool escapes = false;
  for (const NodeId argument : names_.Arguments(id)) {
    const std::string key = KeyOf(argument);
    escapes = escapes || scalers_.IsScaler(names_.Key(argument)) || scalers_.IsScaler(key);
  }
  // An inherited method may use any attribute of self.
  const std::string receiver = names_.Key(names_.Receiver(id));
  if (receiver == "self" || receiver == "super") {
    for (const ScalerCall& call : scalers_.calls())
      escapes = escapes || call.scaler.starts_with("self.");
  }
  if (!escapes) return in;
  return Each(std::move(in), [](Path& path) { path.escaped = true; });
}

}  // namespace

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
  Machine machine(bindings, scalers, cancel);
  for (const Function& function : bindings.functions()) {
    if (machine.matters(function) || function.node == 0) machine.Run(function, &violations_);
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
