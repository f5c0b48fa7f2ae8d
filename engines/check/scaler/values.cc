// Expressions and assignments: the calls inside, and what a variable holds after them.
#include <algorithm>

#include "engines/check/scaler/machine.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {

Paths ScalerMachine::RebindAll(NodeId id, Paths in) const {
  const Fields& f = PythonFields();
  std::vector<NodeId> targets;
  std::vector<NodeId> calls;
  for (NodeId part = id; part < syntax()[id].after; ++part) {
    const Kind kind = syntax().kind(part);
    if (kind == Kind::kCall) calls.push_back(part);
    if (kind == Kind::kAssignment || kind == Kind::kAugmentedAssignment || kind == Kind::kFor)
      targets.push_back(syntax().Child(part, f.left));
  }
  if (targets.empty() && calls.empty()) return in;
  return Each(std::move(in), [&](Path& path) {
    for (const NodeId target : targets) Rebind(target, path);
    for (const NodeId call : calls) TouchTensors(call, path);
  });
}

void ScalerMachine::NextElement(NodeId loop, bool starts, Path& path) const {
  const NodeId target = syntax().Child(loop, PythonFields().left);
  if (target == kNoNode) return;
  for (NodeId id = target; id < syntax()[target].after; ++id) {
    if (syntax().Is(id, Kind::kIdentifier)) check::NextElement(KeyOf(id), loop, starts, path.state);
  }
  Rebind(target, path);
}

void ScalerMachine::Rebind(NodeId target, Path& path) const {
  const Kind kind = syntax().kind(target);
  if (kind == Kind::kPatternList || kind == Kind::kTuple || kind == Kind::kList) {
    for (const NodeId part : syntax().Children(target)) Rebind(part, path);
    return;
  }
  const std::string key = names().Key(target);
  if (key.empty()) return;
  path.conditions.Forget(key);  // conditions are kept in the words of the code that runs
  // Another name of something: the thing itself does not change.
  if (const std::string* local =
          frame().function == nullptr ? nullptr : code().Local(frame().function->node, key);
      local != nullptr && !local->empty())
    return;
  const std::string object = Translate(key);
  path.scaled_values.erase(object);
  ForgetOptimizer(object, path.state);
}

std::string ScalerMachine::ScalerOf(NodeId value, const Path& path) const {
  const Fields& f = PythonFields();
  const NodeId id = syntax().Unwrap(value);
  if (id == kNoNode) return "";
  if (std::string direct = Translate(scalers().ScaledBy(id)); !direct.empty()) return direct;
  if (path.scaled_values.empty()) return "";
  for (NodeId part = id; part < syntax()[id].after; ++part) {
    const Kind kind = syntax().kind(part);
    std::string key;
    if (kind == Kind::kCall) {
      key = "()" + std::to_string(part);
    } else if (kind == Kind::kAttribute || kind == Kind::kSubscript ||
               (kind == Kind::kIdentifier && syntax()[part].field != f.attribute &&
                syntax()[part].field != f.name)) {
      key = KeyOf(part);
    }
    if (const auto it = path.scaled_values.find(key); it != path.scaled_values.end())
      return it->second;
  }
  return "";
}

Paths ScalerMachine::Either(NodeId condition, NodeId yes, NodeId no, Paths in) {
  Paths holds;
  Paths fails;
  Split(condition, Expression(condition, std::move(in)), &holds, &fails);
  Paths out = Expression(yes, std::move(holds));
  Add(out, Expression(no, std::move(fails)));
  Limit(out);
  return out;
}

Paths ScalerMachine::Choice(NodeId id, Paths in) {
  const std::vector<NodeId> parts = syntax().Children(id);  // value, condition, other value
  if (parts.size() != 3) return in;
  for (const NodeId value : {parts[0], parts[2]}) {
    const ScalerCall* call = scalers().At(syntax().Unwrap(value));
    // `scaler.scale(loss) if use_amp else loss` is judged by what it is used for.
    if (call != nullptr && call->op == ScalerCall::Op::kScale) return in;
  }
  return Either(parts[1], parts[0], parts[2], std::move(in));
}

bool ScalerMachine::DoesNothing(NodeId expression) const {
  for (NodeId id = expression; id < syntax()[expression].after; ++id) {
    if (syntax().Is(id, Kind::kCall) || syntax().Is(id, Kind::kNamedExpression)) return false;
  }
  return true;
}

Paths ScalerMachine::Expression(NodeId id, Paths in) {
  if (id == kNoNode || in.empty()) return in;
  const Kind kind = syntax()[id].kind;
  if (kind == Kind::kLambda || kind == Kind::kFunction) return in;
  const Fields& f = PythonFields();
  // Every operand doubles the paths: only where it matters whether one runs.
  if ((kind == Kind::kConditional || kind == Kind::kBoolean) && DoesNothing(id)) return in;
  if (kind == Kind::kConditional) return Choice(id, std::move(in));
  if (kind == Kind::kBoolean) {
    // `use_amp and scaler.step(optimizer)`: the right side runs only if the left one lets it.
    const bool is_and = syntax().Text(syntax().Child(id, f.operator_)) == "and";
    const NodeId right = syntax().Child(id, f.right);
    return Either(syntax().Child(id, f.left), is_and ? right : kNoNode, is_and ? kNoNode : right,
                  std::move(in));
  }
  for (const NodeId child : syntax().Children(id)) in = Expression(child, std::move(in));
  if (kind == Kind::kCall) {
    if (std::any_of(in.begin(), in.end(),
                    [](const Path& path) { return !path.conditions.values().empty(); }))
      in = Each(std::move(in), [&](Path& path) { TouchTensors(id, path); });
    return RunCall(id, std::move(in));
  }
  if (kind == Kind::kAssignment || kind == Kind::kAugmentedAssignment ||
      kind == Kind::kNamedExpression)
    return Assign(id, std::move(in));
  return in;
}

Paths ScalerMachine::Assign(NodeId id, Paths in) {
  const Fields& f = PythonFields();
  const Kind kind = syntax()[id].kind;
  const bool named = kind == Kind::kNamedExpression;
  const NodeId target = syntax().Child(id, named ? f.name : f.left);
  const NodeId value = syntax().Child(id, named ? f.value : f.right);
  if (value == kNoNode) return in;  // only an annotation
  if (const GradientUse use = UseOfGradient(bindings(), id))
    return OnGradient(id, *use, std::move(in));
  const bool writes_gradient =
      Holds(syntax().Text(target), ".grad") && !syntax().Is(value, Kind::kNone);
  const auto& made = scalers().made();
  const bool makes_scaler = std::any_of(made.begin(), made.end(), [&](const ScalerMade& one) {
    return one.call == syntax().Unwrap(value);
  });
  return WithScale(value, std::move(in), [&](Path& path, const std::string& scaler) {
    if (writes_gradient) Happen(At(Event::Kind::kEscape, id), path);
    const std::string key = KeyOf(target);
    const auto it = path.scaled_values.find(key);
    const bool keeps = kind == Kind::kAugmentedAssignment && it != path.scaled_values.end();
    const std::string by = scaler.empty() && keeps ? it->second : scaler;
    // A counter's values are those of the first rounds only.
    const Held held = kind == Kind::kAugmentedAssignment ? Held{} : HeldAfter(target, value, path);
    Rebind(target, path);
    if (makes_scaler) Happen(At(Event::Kind::kNewScaler, id), path);
    for (const auto& [name, constant] : held) path.conditions.values().Set(name, constant);
    if (by.empty()) return;
    if (!key.empty()) {
      path.scaled_values[key] = by;
      return;
    }
    // loss, outputs = helper(…): which of them is scaled is not known.
    for (const NodeId part : syntax().Children(target)) {
      if (const std::string one = KeyOf(part); !one.empty()) path.scaled_values[one] = by;
    }
  });
}

}  // namespace mpnanny::check
