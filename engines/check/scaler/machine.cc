// How paths go through statements: branches, loops, assignments.
#include "engines/check/scaler/machine.h"

#include <algorithm>

#include "engines/check/facts/questions.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

// True if a condition asks whether the loss or the gradients are fit for a step.
bool IsCheck(std::string_view condition) {
  return HoldsAny(condition, {"isfinite", "isnan", "isinf", "nan", "NaN", "finite", "norm",
                              "overflow", "found_inf", "skip", "math.inf", "valid", "1e", "10000"});
}

// True if the function is one whole training step: it steps and updates, in no loop of its own,
// with a scaler that it did not make.
bool IsOneStep(const Code& code, const Function& function) {
  if (function.node == 0) return false;
  bool steps = false;
  bool updates = false;
  for (const ScalerCall* call : code.CallsIn(function.node)) {
    if (code.IsInLoop(call->call)) return false;
    steps = steps || call->op == ScalerCall::Op::kStep;
    updates = updates || call->op == ScalerCall::Op::kUpdate;
  }
  const auto& made = code.scalers().made();
  return steps && updates && std::none_of(made.begin(), made.end(), [&](const ScalerMade& one) {
           return code.syntax().FunctionOf(one.call) == function.node;
         });
}

}  // namespace

void Flow::Leave(Flow& other) {
  breaks.merge(other.breaks);
  continues.merge(other.continues);
  returns.merge(other.returns);
}

void ScalerMachine::Run(const Function& function, std::vector<Violation>* violations) {
  found_.clear();
  helpers_.clear();
  steps_ = 0;
  frames_.front().function = &function;
  Flow flow = Block(function.body, {Path{}});
  if (steps_ < kMaxSteps && IsOneStep(root_, function)) {
    // Called for every batch. What else happens between two calls is not known: only what the check
    // has left behind is looked at, and gradients that wait for the step of a later call.
    Add(flow.out, std::move(flow.returns));
    Paths again;
    for (const Path& path : flow.out) {
      Path next;
      next.state = NextBatch(path.state);
      for (const std::string& parameter : function.parameters)
        ForgetOptimizer(parameter, next.state);
      const GradientState& left = next.state;
      if ((left.skip != kNoNode && !left.unscaled.empty()) || !left.awaiting.empty())
        again.insert(std::move(next));
    }
    Block(function.body, std::move(again));
  }
  if (steps_ >= kMaxSteps) return;
  for (const auto& [key, violation] : found_) violations->push_back(violation);
}

std::string ScalerMachine::Translate(std::string key, int depth) const {
  if (key.empty()) return key;
  const size_t end = std::min(key.find_first_of(".["), key.size());
  const std::string root = key.substr(0, end);
  const std::string rest = key.substr(end);
  const Frame& now = frame();
  if (root == "self") return now.self + rest;
  // Another file's own variables are other ones.
  const bool foreign = now.code != &root_;
  if (const auto it = now.arguments.find(root); it != now.arguments.end()) return it->second + rest;
  if (now.function == nullptr) return key;
  const std::string* local = code().Local(now.function->node, root);
  if (local != nullptr && !local->empty() && depth > 0) return Translate(*local + rest, depth - 1);
  const std::vector<std::string>& parameters = now.function->parameters;
  const bool own = local != nullptr || IsOneOf(parameters, root);
  if (own) return root + now.suffix + rest;
  return foreign ? root + "#" + std::to_string(now.code->number()) + rest : key;
}

bool ScalerMachine::IsOptimizer(NodeId expression) const {
  const std::string key = names().Key(expression);
  return scalers().IsOptimizer(key) || root_.scalers().IsOptimizer(Translate(key));
}

bool ScalerMachine::IsScaler(NodeId expression) const {
  const std::string key = names().Key(expression);
  return scalers().IsScaler(key) || root_.scalers().IsScaler(Translate(key));
}

void ScalerMachine::Limit(Paths& paths) {
  if (paths.size() <= kMaxPaths) return;
  Paths fewer;
  while (!paths.empty() && fewer.size() < kMaxPaths) {
    auto path = paths.extract(paths.begin());
    path.value().conditions.Clear();
    // Without the conditions impossible combinations look possible: such a path must not accuse
    // anybody.
    path.value().state.escaped = true;
    fewer.insert(std::move(path));
  }
  paths = std::move(fewer);
}

Flow ScalerMachine::Block(NodeId block, Paths in) {
  Flow flow{std::move(in), {}, {}, {}};
  if (block == kNoNode) return flow;
  for (const NodeId statement : syntax().Children(block)) {
    if (flow.out.empty() || steps_ >= kMaxSteps || cancel_.stop_requested()) break;
    steps_ += static_cast<int>(flow.out.size());
    Flow next = Statement(statement, std::move(flow.out));
    flow.out = std::move(next.out);
    Limit(flow.out);
    flow.Leave(next);
  }
  return flow;
}

Flow ScalerMachine::Statement(NodeId id, Paths in) {
  const Fields& f = PythonFields();
  switch (syntax()[id].kind) {
    case Kind::kFunction:
    case Kind::kClass:
    case Kind::kDecorated:
      return {std::move(in), {}, {}, {}};
    case Kind::kIf:
      return If(id, std::move(in));
    case Kind::kFor:
    case Kind::kWhile:
      return Loop(id, std::move(in));
    case Kind::kTry:
      return Try(id, std::move(in));
    case Kind::kWith: {
      for (const NodeId part : syntax().Children(id)) {
        if (syntax()[part].field != f.body) in = Expression(part, std::move(in));
      }
      return Block(syntax().Child(id, f.body), std::move(in));
    }
    case Kind::kMatch: {
      Flow all{in, {}, {}, {}};
      for (NodeId clause = id; clause < syntax()[id].after; ++clause) {
        if (syntax()[clause].kind != Kind::kCaseClause) continue;
        Flow one = Block(syntax().Child(clause, f.consequence), in);
        Add(all.out, std::move(one.out));
        all.Leave(one);
      }
      return all;
    }
    case Kind::kReturn:
    case Kind::kRaise:
    case Kind::kBreak:
    case Kind::kContinue:
      return Leaving(id, Expression(id, std::move(in)));
    default:
      return {Expression(id, std::move(in)), {}, {}, {}};
  }
}

Flow ScalerMachine::Try(NodeId id, Paths in) {
  const Fields& f = PythonFields();
  Flow flow = Block(syntax().Child(id, f.body), in);
  Paths before = std::move(in);
  Add(before, flow.out);
  for (const NodeId part : syntax().Children(id)) {
    if (syntax()[part].field == f.body) continue;
    const bool always = !syntax().Is(part, Kind::kExcept);  // else and finally run after the body
    for (const NodeId inner : syntax().Children(part)) {
      if (!syntax().Is(inner, Kind::kBlock)) continue;
      Flow other = Block(inner, always ? flow.out : before);
      always ? (void)(flow.out = std::move(other.out)) : Add(flow.out, std::move(other.out));
      flow.Leave(other);
    }
  }
  return flow;
}

Flow ScalerMachine::Leaving(NodeId id, Paths in) {
  const Kind kind = syntax().kind(id);
  if (kind == Kind::kRaise) return {};
  const NodeId check = syntax().Enclosing(id, Kind::kIf);
  const bool checked = kind != Kind::kBreak && check > syntax().FunctionOf(id) &&
                       IsCheck(syntax().Text(syntax().Child(check, PythonFields().condition)));
  const NodeId value = syntax().Children(id)[0];
  if (checked) in = Happen(Event::Kind::kGoRound, id, std::move(in));
  if (kind == Kind::kReturn && frames_.size() > 1 && value != kNoNode) {
    in = Each(std::move(in), [&](Path& path) {
      if (const std::string scaler = ScalerOf(value, path); !scaler.empty())
        path.scaled_values["()"] = scaler;
    });
  }
  Flow flow;
  (kind == Kind::kReturn  ? flow.returns
   : kind == Kind::kBreak ? flow.breaks
                          : flow.continues) = std::move(in);
  return flow;
}

void ScalerMachine::Split(NodeId condition, Paths in, Paths* yes, Paths* no, bool apart) const {
  const Fields& f = PythonFields();
  bool positive = true;
  const NodeId core = Core(bindings(), condition, &positive);
  apart = apart && positive && syntax().Is(core, Kind::kBoolean) &&
          syntax().Text(syntax().Child(core, f.operator_)) == "and";
  const NodeId left = apart ? syntax().Child(core, f.left) : kNoNode;
  while (!in.empty()) {
    auto node = in.extract(in.begin());
    Path& path = node.value();
    const Tri known = path.conditions.Evaluate(bindings(), condition);
    if (known == Tri::kYes) {
      path.conditions.Assume(bindings(), condition, true);
      yes->insert(yes->end(), std::move(node));
      continue;
    }
    if (known == Tri::kUnknown) {
      Path taken = path;
      taken.conditions.Assume(bindings(), condition, true);
      yes->insert(std::move(taken));
    }
    if (apart && path.conditions.Evaluate(bindings(), left) == Tri::kUnknown) {
      Path first = path;
      first.conditions.Assume(bindings(), left, false);
      first.conditions.Assume(bindings(), condition, false);
      no->insert(std::move(first));
      path.conditions.Assume(bindings(), left, true);
    }
    path.conditions.Assume(bindings(), condition, false);
    no->insert(no->end(), std::move(node));
  }
}

void ScalerMachine::GoAround(NodeId condition, NodeId branch, NodeId other, Paths& paths) {
  const std::string_view text = syntax().Text(condition);
  const auto holds_only_other = [&](ScalerCall::Op op) {
    return code().Holds(other, op) && !code().Holds(branch, op);
  };
  if (holds_only_other(ScalerCall::Op::kUpdate) && IsCheck(text))
    paths = Happen(Event::Kind::kGoRound, condition, std::move(paths));
  // `if state is not OptState.UNSCALED: scaler.unscale_(optimizer)` asks for what is followed here.
  if (holds_only_other(ScalerCall::Op::kUnscale) && HoldsAny(text, {"nscaled", "UNSCALED"}))
    paths = Happen(Event::Kind::kEscape, condition, std::move(paths));
  // `if is_first_micro_batch: optimizer.zero_grad()` comes round in time.
  bool positive = true;
  const NodeId asked = Core(bindings(), condition, &positive);
  const std::vector<NodeId> clears = code().ClearsIn(other);
  if (!clears.empty() && (asked == kNoNode || Ask(bindings(), asked).key != kMixedPrecision)) {
    paths = Each(std::move(paths), [&](Path& path) {
      // Not where it stands on the way without mixed precision.
      if (std::any_of(clears.begin(), clears.end(),
                      [&](NodeId clear) { return MayReach(clear, other, path); }))
        Happen(At(Event::Kind::kGoRoundClear, condition), path);
    });
  }
}

bool ScalerMachine::MayReach(NodeId node, NodeId from, const Path& path) const {
  const Fields& f = PythonFields();
  for (NodeId up = node; up > from; up = syntax()[up].parent) {
    const NodeId branch = syntax()[up].parent;
    if (!syntax().Is(branch, Kind::kIf)) continue;
    const Tri holds = path.conditions.Evaluate(bindings(), syntax().Child(branch, f.condition));
    if (syntax()[up].field == f.consequence && holds == Tri::kNo) return false;
    if (syntax()[up].field == f.alternative && holds == Tri::kYes) return false;
  }
  return true;
}

Flow ScalerMachine::If(NodeId id, Paths in) {
  const Fields& f = PythonFields();
  // Both ways go on alike, except for what is assigned.
  if (code().IsInert(id) && std::none_of(in.begin(), in.end(), [&](const Path& path) {
        return !ScalerOf(id, path).empty();
      }))
    return {RebindAll(id, std::move(in)), {}, {}, {}};
  Flow flow;
  const auto take = [&](NodeId body, Paths paths) {
    Flow one = Block(body, std::move(paths));
    Add(flow.out, std::move(one.out));
    flow.Leave(one);
  };
  NodeId condition = syntax().Child(id, f.condition);
  Paths yes;
  Paths no;
  NodeId body = syntax().Child(id, f.consequence);
  // `if scaler and (norm or value): scaler.unscale_(optimizer)`: without it one of the two is off.
  const bool unscales = code().Holds(id, ScalerCall::Op::kUnscale);
  Split(condition, Expression(condition, std::move(in)), &yes, &no, unscales);
  for (const NodeId part : syntax().Children(id)) {
    if (syntax()[part].field != f.alternative) continue;
    GoAround(condition, body, part, yes);
    GoAround(condition, part, body, no);
    take(body, std::move(yes));
    if (syntax().Is(part, Kind::kElif)) {
      condition = syntax().Child(part, f.condition);
      body = syntax().Child(part, f.consequence);
      Paths rest = std::move(no);
      yes.clear();
      no.clear();
      Split(condition, Expression(condition, std::move(rest)), &yes, &no, unscales);
    } else {
      take(syntax().Child(part, f.body), std::move(no));
      return flow;
    }
  }
  GoAround(condition, kNoNode, body, no);
  take(body, std::move(yes));
  Add(flow.out, std::move(no));
  return flow;
}

Flow ScalerMachine::Loop(NodeId id, Paths in) {
  const Fields& f = PythonFields();
  const bool is_for = syntax()[id].kind == Kind::kFor;
  in = Expression(syntax().Child(id, is_for ? f.right : f.condition), std::move(in));
  Flow flow;
  // `for _ in range(steps)` with steps = 1 has no second turn.
  const NodeId over = is_for ? syntax().Unwrap(syntax().Child(id, f.right)) : kNoNode;
  const bool once_only = syntax().Is(over, Kind::kCall) &&
                         syntax().Text(syntax().Child(over, f.function)) == "range" &&
                         names().Arguments(over).size() == 1 &&
                         bindings().Number(names().Argument(over, 0, "")).value_or(2) == 1;
  // The second turn meets the first one's leftovers. Where flags differ in it (`first = False`), it
  // is another turn that is the first of its kind: two that began alike are enough.
  std::set<PathValues> before;
  bool alike = false;
  Paths entering = in;
  for (int round = 0; round < (once_only ? 1 : kMaxTurns); ++round) {
    if (alike) break;
    std::set<PathValues> now;
    for (const Path& path : entering) now.insert(path.conditions.values());
    alike = round > 0 && now == before;
    before = std::move(now);
    if (is_for) {
      entering = Each(std::move(entering), [&](Path& path) { NextElement(id, round == 0, path); });
    }
    Flow once = Block(syntax().Child(id, f.body), std::move(entering));
    entering = std::move(once.out);
    Add(entering, std::move(once.continues));
    Limit(entering);
    Add(flow.out, entering);
    Add(flow.out, std::move(once.breaks));
    Add(flow.returns, std::move(once.returns));
  }
  // A loop is taken to run: `for o in optimizers: scaler.unscale_(o)` does unscale, also where some
  // are left out.
  if (flow.out.empty()) flow.out = std::move(in);
  const NodeId body = syntax().Child(id, f.body);
  const auto keep = [&](ScalerCall::Op op, auto done) {
    if (!is_for || !code().Holds(body, op) || code().Holds(body, ScalerCall::Op::kScale) ||
        std::none_of(flow.out.begin(), flow.out.end(), done))
      return;
    std::erase_if(flow.out, [&](const Path& path) {
      return path.state.gradients == Gradients::kScaled && !done(path);
    });
  };
  keep(ScalerCall::Op::kUnscale, [](const Path& path) { return !path.state.unscaled.empty(); });
  keep(ScalerCall::Op::kStep, [](const Path& path) { return path.state.looked; });
  Limit(flow.out);
  return flow;
}

}  // namespace mpnanny::check
