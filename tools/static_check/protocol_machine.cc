// How paths go through statements: branches, loops, assignments.
#include "tools/static_check/protocol_machine.h"

#include <algorithm>

namespace mpnanny::static_check {

void ProtocolMachine::Run(const Function& function, std::vector<Violation>* violations) {
  found_.clear();
  steps_ = 0;
  Block(function.body, {Path{}});
  if (steps_ >= kMaxSteps) return;
  for (const auto& [key, violation] : found_) violations->push_back(violation);
}

bool ProtocolMachine::Matters(const Function& function) const {
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

void ProtocolMachine::FindReaching() {
  std::vector<std::pair<NodeId, NodeId>> calls;  // caller, callee
  for (NodeId id = 0; id < syntax_.size(); ++id) {
    if (syntax_[id].kind != Kind::kCall) continue;
    if (const Function* callee = bindings_.Callee(id))
      calls.emplace_back(syntax_.FunctionOf(id), callee->node);
  }
  reaches_ = matters_;
  for (bool grew = true; grew;) {
    grew = false;
    for (const auto& [caller, callee] : calls)
      grew = (reaches_.contains(callee) && reaches_.insert(caller).second) || grew;
  }
}

std::string ProtocolMachine::Translate(std::string key) const {
  if (key.empty() || arguments_.empty()) return key;
  const size_t end = key.find_first_of(".[");
  const auto it = arguments_.find(key.substr(0, end));
  if (it == arguments_.end()) return key;
  return end == std::string::npos ? it->second : it->second + key.substr(end);
}

void ProtocolMachine::Limit(Paths& paths) {
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

Flow ProtocolMachine::Block(NodeId block, Paths in) {
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

Flow ProtocolMachine::Statement(NodeId id, Paths in) {
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

void ProtocolMachine::Split(NodeId condition, const Paths& in, Paths* yes, Paths* no) const {
  for (const Path& path : in) {
    const Tri known = path.conditions.Evaluate(bindings_, condition);
    if (known != Tri::kNo) {
      Path taken = path;
      taken.conditions.Assume(bindings_, condition, true);
      yes->insert(std::move(taken));
    }
    if (known != Tri::kYes) {
      Path other = path;
      other.conditions.Assume(bindings_, condition, false);
      no->insert(std::move(other));
    }
  }
}

Flow ProtocolMachine::If(NodeId id, Paths in) {
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

Flow ProtocolMachine::Loop(NodeId id, Paths in) {
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

void ProtocolMachine::Rebind(NodeId target, Path& path) const {
  const Kind kind = syntax_.kind(target);
  if (kind == Kind::kPatternList || kind == Kind::kTuple || kind == Kind::kList) {
    for (const NodeId part : syntax_.Children(target)) Rebind(part, path);
    return;
  }
  const std::string key = KeyOf(target);
  if (key.empty()) return;
  path.conditions.Forget(key);
  path.scaled_values.erase(key);
  for (std::set<std::string>* set : {&path.unscaled, &path.stepped, &path.stepped_since_backward}) {
    std::erase_if(*set, [&](const std::string& name) {
      return name == key || name.starts_with(key + ".") || name.starts_with(key + "[") ||
             name.find("[" + key + "]") != std::string::npos;
    });
  }
}

Paths ProtocolMachine::Choice(NodeId id, Paths in) {
  const std::vector<NodeId> parts = syntax_.Children(id);  // value, condition, other value
  if (parts.size() != 3) return in;
  for (const NodeId value : {parts[0], parts[2]}) {
    const ScalerCall* call = scalers_.At(syntax_.Unwrap(value));
    // `scaler.scale(loss) if use_amp else loss` is judged by what it is used for.
    if (call != nullptr && call->op == ScalerCall::Op::kScale) return in;
  }
  Paths yes;
  Paths no;
  Split(parts[1], Expression(parts[1], std::move(in)), &yes, &no);
  Paths out = Expression(parts[0], std::move(yes));
  Add(out, Expression(parts[2], std::move(no)));
  return out;
}

Paths ProtocolMachine::Expression(NodeId id, Paths in) {
  if (id == kNoNode || in.empty()) return in;
  const Kind kind = syntax_[id].kind;
  if (kind == Kind::kLambda || kind == Kind::kFunction) return in;
  const Fields& f = PythonFields();
  if (kind == Kind::kConditional) return Choice(id, std::move(in));
  if (kind == Kind::kBoolean) {
    // `use_amp and scaler.step(optimizer)`: the right side runs only if the left one lets it.
    const NodeId left = syntax_.Child(id, f.left);
    Paths yes;
    Paths no;
    Split(left, Expression(left, std::move(in)), &yes, &no);
    const bool is_and = syntax_.Text(syntax_.Child(id, f.operator_)) == "and";
    Paths out = Expression(syntax_.Child(id, f.right), std::move(is_and ? yes : no));
    Add(out, is_and ? no : yes);
    return out;
  }
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

}  // namespace mpnanny::static_check
