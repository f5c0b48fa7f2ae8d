#include "engines/check/facts/checkpoints.h"

#include <algorithm>
#include <initializer_list>

#include "base/text.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

// grad_scaler, gradscalar: both spellings are in use.
bool IsScalerName(std::string_view key) {
  const std::string name = LowerCase(LastComponent(key));
  return HoldsAny(name, {"scaler", "grad_scal", "gradscal", "loss_scalar", "amp_scalar"});
}

bool SoundsLikeSaving(std::string_view name) {
  return HoldsAny(LowerCase(name), {"save", "checkpoint", "ckpt", "dump"});
}

// True if the variable is an element of something that is called *optim*, in a loop or a
// comprehension around the node.
bool IsElementOfOptimizers(const FileFacts& facts, NodeId node, std::string_view variable) {
  const Fields& f = PythonFields();
  const Syntax& syntax = facts.syntax;
  for (NodeId up = syntax[node].parent; up > 0; up = syntax[up].parent) {
    if (syntax.Is(up, Kind::kFunction)) return false;
    for (NodeId part = up; part < syntax[up].after; ++part) {
      // A for clause of a comprehension has the same fields as the statement.
      const NodeId left = syntax.Child(part, f.left);
      const NodeId right = syntax.Child(part, f.right);
      const bool loops = syntax.Is(part, Kind::kFor) || syntax.Is(part, Kind::kOther);
      if (loops && left != kNoNode && right != kNoNode &&
          syntax.Text(left).find(variable) != std::string_view::npos &&
          syntax.Text(right).find("optim") != std::string_view::npos)
        return true;
      if (syntax.Is(up, Kind::kFor) || syntax.Is(up, Kind::kBlock)) break;
    }
  }
  return false;
}

bool IsOptimizerState(const FileFacts& facts, const Call& call) {
  if (call.name == "optim_state_dict" || call.name == "full_optim_state_dict" ||
      call.name == "sharded_optim_state_dict")
    return true;
  if (call.method != "state_dict" || call.receiver == kNoNode) return false;
  const std::string key = facts.names.Key(call.receiver);
  return !key.empty() &&
         (facts.scalers.IsOptimizer(key) || (facts.syntax.Is(call.receiver, Kind::kIdentifier) &&
                                             IsElementOfOptimizers(facts, call.node, key)));
}

// True if a dict of the function has the variable as a value.
bool IsPutIntoDict(const FileFacts& facts, NodeId function, std::string_view variable) {
  for (NodeId id = function; id < facts.syntax[function].after; ++id) {
    if (facts.syntax.Is(id, Kind::kPair) &&
        facts.syntax.Text(facts.syntax.Child(id, PythonFields().value)) == variable)
      return true;
  }
  return false;
}

// True if the function loads states, and neither saves nor returns what it made: an old checkpoint
// that is put into another form.
bool OnlyLoads(const FileFacts& facts, NodeId function, std::string_view variable) {
  bool loads = false;
  for (const Call& call : facts.names.calls()) {
    if (facts.syntax.FunctionOf(call.node) != function) continue;
    if (SoundsLikeSaving(call.name)) return false;
    loads = loads || call.name == "load_state_dict";
  }
  const std::string returned = "return " + std::string(variable);
  return loads && function != 0 && !Holds(facts.syntax.Text(function), returned);
}

bool GoesIntoCheckpoint(const FileFacts& facts, NodeId state) {
  const Fields& f = PythonFields();
  const Syntax& syntax = facts.syntax;
  const NodeId function = syntax.FunctionOf(state);
  const NodeId statement = syntax.StatementOf(state);
  for (NodeId up = syntax[state].parent; up != kNoNode; up = syntax[up].parent) {
    switch (syntax.kind(up)) {
      case Kind::kPair:
        return true;
      case Kind::kCall: {
        const Call* call = facts.names.CallAt(up);
        const std::string_view name = call == nullptr ? "" : call->name;
        if (name == "load_state_dict" || name == "print") return false;
        if (name == "dict" || SoundsLikeSaving(name) || name.find("tate") != std::string_view::npos)
          return true;
        break;
      }
      case Kind::kAssignment: {
        const NodeId target = syntax.Child(up, f.left);
        if (syntax.Is(target, Kind::kSubscript))
          return !OnlyLoads(facts, function, syntax.Text(syntax.Child(target, f.value)));
        return syntax.Is(target, Kind::kIdentifier) &&
               IsPutIntoDict(facts, function, syntax.Text(target));
      }
      case Kind::kReturn: {
        const Function* known = facts.bindings.FunctionAt(function);
        return known != nullptr &&
               (SoundsLikeSaving(known->name) || known->name.find("state") != std::string::npos);
      }
      default:
        break;
    }
    if (up == statement) return false;
  }
  return false;
}

}  // namespace

std::vector<SavedOptimizer> FindSavedOptimizers(const FileFacts& facts) {
  std::vector<SavedOptimizer> found;
  for (const Call& call : facts.names.calls()) {
    if (call.name.find("state_dict") == std::string_view::npos) continue;
    if (IsOptimizerState(facts, call) && GoesIntoCheckpoint(facts, call.node))
      found.push_back({call.node, facts.syntax.FunctionOf(call.node)});
  }
  return found;
}

std::vector<NodeId> ScalerStateCalls(const FileFacts& facts, std::string_view method) {
  std::vector<NodeId> found;
  for (const Call* call : facts.names.CallsNamed(method)) {
    if (call->receiver == kNoNode) continue;
    const std::string key = facts.names.Key(call->receiver);
    if (IsScalerName(key) || facts.scalers.IsScaler(key)) found.push_back(call->node);
  }
  return found;
}

bool KnowsScalerState(const FileFacts& facts) {
  const std::string_view text = facts.syntax.text();
  if (HoldsAny(text, {"scaler.state_dict", "scaler_state", "'scaler'", "\"scaler\"",
                      "accelerator.save_state(", "fabric.save"}) ||
      !ScalerStateCalls(facts, "state_dict").empty())
    return true;
  for (const Call& call : facts.names.calls()) {
    if (!SoundsLikeSaving(call.name)) continue;
    for (const NodeId argument : facts.names.Arguments(call.node)) {
      if (IsScalerName(facts.names.Key(argument)) || facts.syntax.Text(argument) == "self")
        return true;
    }
  }
  return false;
}

}  // namespace mpnanny::check
