// Flags: variables whose values are known on a path and decide which way it goes.
#include <algorithm>
#include <iterator>

#include "engines/check/facts/questions.h"
#include "engines/check/scaler/machine.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

// How often variables that others are computed from are looked for.
constexpr int kRounds = 3;

// What leaves a tensor as it is, or what is known of it: the greatest of all ranks' zeros is zero.
constexpr std::string_view kReads[] = {
    "item", "cpu",     "cuda",  "to",    "detach",    "clone", "any",     "all",
    "max",  "min",     "mean",  "view",  "float",     "int",   "bool",    "double",
    "long", "byte",    "print", "isnan", "isfinite",  "isinf", "squeeze", "reshape",
    "abs",  "barrier", "info",  "debug", "contiguous"};

// Calls `visit(name)` for the variables in the expression.
template <typename Visit>
void ForNames(const Syntax& syntax, NodeId expression, Visit visit) {
  if (expression == kNoNode) return;
  const Fields& f = PythonFields();
  for (NodeId id = expression; id < syntax[expression].after; ++id) {
    if (syntax.Is(id, Kind::kIdentifier) && syntax[id].field != f.attribute &&
        syntax[id].field != f.name)
      visit(syntax.Text(id));
  }
}

bool Mentions(const Syntax& syntax, NodeId expression, std::string_view name) {
  bool found = false;
  ForNames(syntax, expression, [&](std::string_view one) { found = found || one == name; });
  return found;
}

// True if the value is computed in a way that a loop repeats: n + 1.
bool Computes(const Syntax& syntax, NodeId value) {
  for (NodeId id = value; id < syntax[value].after; ++id) {
    if (syntax.Is(id, Kind::kBinary)) return true;
  }
  return false;
}

}  // namespace

const std::set<std::string, std::less<>>& ScalerMachine::Asked() {
  const NodeId function = frame().function == nullptr ? 0 : frame().function->node;
  const auto [it, first] = asked_.try_emplace({&code(), function});
  std::set<std::string, std::less<>>& asked = it->second;
  if (!first) return asked;
  // What other functions assign, the path does not see.
  if (HoldsAny(function == 0 ? std::string_view(syntax().text()) : syntax().Text(function),
               {"nonlocal ", "global "}))
    return asked;
  const Fields& f = PythonFields();
  const auto add = [&](std::string_view name) {
    // Whether mixed precision is on is asked in many words.
    if (AskOfName(name).key != kMixedPrecision) asked.emplace(name);
  };
  const NodeId end =
      function == 0 ? static_cast<NodeId>(syntax().size()) : syntax()[function].after;
  std::vector<NodeId> assignments;
  for (NodeId id = function; id < end; ++id) {
    const Kind kind = syntax().kind(id);
    if (kind == Kind::kAssignment || kind == Kind::kNamedExpression) assignments.push_back(id);
    if ((kind == Kind::kIf && !code().IsInert(id)) || kind == Kind::kElif) {
      ForNames(syntax(), syntax().Child(id, f.condition), add);
    } else if ((kind == Kind::kConditional || kind == Kind::kBoolean) && !DoesNothing(id)) {
      ForNames(syntax(), id, add);
    }
  }
  for (int round = 0; round < kRounds && !asked.empty(); ++round) {
    for (const NodeId id : assignments) {
      const bool named = syntax().Is(id, Kind::kNamedExpression);
      const NodeId target = syntax().Child(id, named ? f.name : f.left);
      if (syntax().Is(target, Kind::kIdentifier) && asked.contains(syntax().Text(target)))
        ForNames(syntax(), syntax().Child(id, named ? f.value : f.right), add);
    }
  }
  return asked;
}

ScalerMachine::Held ScalerMachine::HeldAfter(NodeId target, NodeId value, const Path& path) {
  Held held;
  if (target == kNoNode || value == kNoNode) return held;
  const Kind kind = syntax().kind(target);
  if (kind == Kind::kPatternList || kind == Kind::kTuple) {
    const std::vector<NodeId> targets = syntax().Children(target);
    const std::vector<NodeId> values = syntax().Children(value);
    const Kind right = syntax().kind(value);
    if ((right != Kind::kExpressionList && right != Kind::kTuple) ||
        targets.size() != values.size())
      return held;
    for (size_t i = 0; i < targets.size(); ++i) {
      for (auto& one : HeldAfter(targets[i], values[i], path)) held.push_back(std::move(one));
    }
    return held;
  }
  if (kind != Kind::kIdentifier) return held;
  const std::string_view name = syntax().Text(target);
  if (!Asked().contains(name) || Computes(syntax(), value)) return held;
  // A setting at the top of a script is a switch that somebody may flip; a flag is set again.
  if (frame().function == nullptr || frame().function->node == 0) {
    const std::vector<Assignment> all = bindings().AssignmentsOf(target);
    if (all.size() < 2) return held;
  }
  auto constant = path.conditions.values().Evaluate(bindings(), value);
  if (!constant) return held;
  // Two names of one tensor: what is written into one is in the other, too.
  if (constant->tensor && syntax().Is(syntax().Unwrap(value), Kind::kIdentifier) &&
      !Mentions(syntax(), value, name))
    return held;
  held.emplace_back(name, std::move(*constant));
  return held;
}

void ScalerMachine::TouchTensors(NodeId call, Path& path) const {
  PathValues& values = path.conditions.values();
  if (values.empty()) return;
  const Fields& f = PythonFields();
  const Call* known = names().CallAt(call);
  const std::string_view name = known == nullptr ? "" : known->name;
  if (IsOneOf(kReads, name)) return;
  const auto touch = [&](NodeId expression) {
    const NodeId id = syntax().Unwrap(expression);
    if (!syntax().Is(id, Kind::kIdentifier) && !syntax().Is(id, Kind::kSubscript)) return;
    const std::string key = names().Key(id);
    const std::string variable = key.substr(0, key.find('['));
    const PathConstant* held = values.Of(variable);
    if (held == nullptr || !held->tensor) return;
    if (name == "all_reduce") {
      const std::string_view text = syntax().Text(syntax().Child(call, f.arguments));
      if (held->number == 0 || HoldsAny(text, {"MAX", "MIN", "AVG"})) return;
    }
    values.Forget(variable);
  };
  touch(names().Receiver(call));
  for (const NodeId argument : names().Arguments(call)) touch(argument);
}

}  // namespace mpnanny::check
