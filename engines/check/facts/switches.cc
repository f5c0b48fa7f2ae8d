#include "engines/check/facts/switches.h"

#include <algorithm>
#include <vector>

#include "engines/check/facts/questions.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check {
namespace {

bool IsOff(const FileFacts& facts, NodeId value) {
  const auto number = facts.bindings.Number(value);
  return facts.syntax.Is(value, Kind::kNone) || facts.syntax.Is(value, Kind::kFalse) ||
         (number && *number <= 0);
}

const Function* OwnerOf(const FileFacts& facts, NodeId parameter) {
  const Function* const own = facts.bindings.FunctionAt(facts.syntax.FunctionOf(parameter));
  if (own == nullptr || !facts.syntax.Is(parameter, Kind::kIdentifier)) return nullptr;
  const bool is_parameter = std::find(own->parameters.begin(), own->parameters.end(),
                                      facts.syntax.Text(parameter)) != own->parameters.end();
  return is_parameter ? own : nullptr;
}

// What `x > 0`, `x is not None`, `not x` and `x` ask about.
NodeId Asked(const FileFacts& facts, NodeId condition) {
  bool positive = true;
  const NodeId core = Core(facts.bindings, condition, &positive);
  if (!facts.syntax.Is(core, Kind::kComparison)) return core;
  const std::vector<NodeId> sides = facts.syntax.Children(core);
  return sides.size() == 2 && facts.bindings.Number(sides[1]) ? facts.syntax.Unwrap(sides[0])
                                                              : kNoNode;
}

// Set by its class's __init__ alone, or of another object, which the code at hand only reads.
bool IsSetting(const FileFacts& facts, NodeId attribute) {
  const std::vector<Assignment> values = facts.bindings.AssignmentsOf(attribute);
  return facts.syntax.Text(facts.syntax.Child(attribute, PythonFields().attribute)) != "training" &&
         std::all_of(values.begin(), values.end(), [&](const Assignment& one) {
           const Function* const function = facts.bindings.FunctionAt(one.function);
           return function != nullptr && function->name == "__init__";
         });
}

bool IsSwitch(const FileFacts& facts, NodeId condition) {
  const NodeId asked = Asked(facts, condition);
  if (asked == kNoNode || Ask(facts.bindings, asked).key == kMixedPrecision) return false;
  if (facts.syntax.Is(asked, Kind::kAttribute)) return IsSetting(facts, asked);
  const Function* const own = OwnerOf(facts, asked);
  if (own == nullptr) return false;
  const NodeId by_default = facts.bindings.ParameterDefault(own->node, facts.syntax.Text(asked));
  return by_default == kNoNode || IsOff(facts, by_default);
}

bool AsksSwitch(const FileFacts& facts, NodeId condition) {
  const NodeId id = facts.syntax.Unwrap(condition);
  if (!facts.syntax.Is(id, Kind::kBoolean)) return IsSwitch(facts, id);
  const std::vector<NodeId> parts = facts.syntax.Children(id);
  return std::any_of(parts.begin(), parts.end(),
                     [&](NodeId part) { return AsksSwitch(facts, part); });
}

}  // namespace

NodeId SwitchAround(const FileFacts& facts, NodeId node) {
  for (NodeId up = facts.syntax[node].parent; up != kNoNode; up = facts.syntax[up].parent) {
    const Kind kind = facts.syntax.kind(up);
    if (kind == Kind::kFunction || kind == Kind::kClass) return kNoNode;
    if (kind != Kind::kIf && kind != Kind::kElif) continue;
    const NodeId condition = facts.syntax.Child(up, PythonFields().condition);
    if (!IsInside(facts, node, condition) && AsksSwitch(facts, condition)) return condition;
  }
  return kNoNode;
}

bool IsNeverSwitchedOn(const FileFacts& facts, NodeId expression) {
  const NodeId asked = expression == kNoNode ? kNoNode : Asked(facts, expression);
  const Function* const own = asked == kNoNode ? nullptr : OwnerOf(facts, asked);
  if (own == nullptr) return false;
  const std::string_view name = facts.syntax.Text(asked);
  const NodeId by_default = facts.bindings.ParameterDefault(own->node, name);
  if (by_default == kNoNode || !IsOff(facts, by_default)) return false;
  const int place = static_cast<int>(
      std::find(own->parameters.begin(), own->parameters.end(), name) - own->parameters.begin());
  bool called = false;
  for (const FileFacts* file : *facts.files) {
    for (const CallEdge& edge : facts.modules->Edges(file->number)) {
      if (edge.callee.function != own) continue;
      called = true;
      if (HasSplat(*file, edge.call) || file->names.Argument(edge.call, place, name) != kNoNode)
        return false;
    }
  }
  return called;
}

}  // namespace mpnanny::check
