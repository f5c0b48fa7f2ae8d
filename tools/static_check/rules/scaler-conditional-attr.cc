#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::scaler_conditional_attr {
namespace {

// The `if` without else that the scaler is made in, where nothing else gives that name a value;
// kNoNode otherwise.
NodeId OnlyIf(const FileFacts& facts, const ScalerMade& made) {
  const Syntax& syntax = facts.syntax;
  const NodeId statement = syntax.StatementOf(made.call);
  if (made.key.empty() || !syntax.Is(syntax[statement].parent, Kind::kBlock)) return kNoNode;
  const NodeId branch = syntax[syntax[statement].parent].parent;
  if (!syntax.Is(branch, Kind::kIf) || branch < syntax.FunctionOf(made.call)) return kNoNode;
  const NodeId assignment =
      syntax.Is(statement, Kind::kExpressionStatement) ? syntax[statement].first_child : statement;
  const NodeId target = syntax.Child(assignment, PythonFields().left);
  if (target == kNoNode || facts.bindings.AssignmentsOf(target).size() != 1) return kNoNode;
  // A class attribute or a property may stand in for it.
  return branch;
}

// True if something in the function decides whether the node is reached.
bool IsGuarded(const FileFacts& facts, NodeId node) {
  const Syntax& syntax = facts.syntax;
  const NodeId function = syntax.FunctionOf(node);
  for (NodeId up = syntax[node].parent; up > function; up = syntax[up].parent) {
    const Kind kind = syntax[up].kind;
    if (kind == Kind::kIf || kind == Kind::kConditional || kind == Kind::kBoolean ||
        kind == Kind::kTry || kind == Kind::kElif)
      return true;
  }
  // `if not self.amp: return` above.
  for (NodeId id = function; id < node; ++id) {
    const Kind kind = syntax[id].kind;
    if ((kind == Kind::kReturn || kind == Kind::kRaise || kind == Kind::kContinue) &&
        syntax.FunctionOf(id) == function)
      return true;
  }
  return false;
}

// The last words of all names in the code: amp_type, PYTORCH of self.amp_type == AmpType.PYTORCH.
std::set<std::string_view> WordsOf(const FileFacts& facts, NodeId root) {
  std::set<std::string_view> words;
  if (root == kNoNode) return words;
  for (NodeId id = root; id < facts.syntax[root].after; ++id) {
    const std::string_view text = facts.syntax.Text(id);
    if (facts.syntax.Is(id, Kind::kIdentifier) && text != "self") words.insert(text);
  }
  return words;
}

// The condition under which the scaler of an attribute is made, where it is None otherwise; kNoNode
// where it is always made, or made in several places.
NodeId OnlyUnder(const FileFacts& facts, const ScalerMade& made) {
  const Fields& f = PythonFields();
  const Syntax& syntax = facts.syntax;
  const auto all = facts.bindings.all().find(made.key);
  if (!made.key.starts_with("self.") || all == facts.bindings.all().end()) return kNoNode;
  const NodeId klass = syntax.Enclosing(made.call, Kind::kClass);
  size_t nones = 0, others = 0;
  for (const Assignment& assignment : all->second) {
    if (syntax.Enclosing(assignment.target, Kind::kClass) != klass) continue;
    ++(syntax.Is(assignment.value, Kind::kNone) ? nones : others);
  }
  if (nones == 0 || others != 1) return kNoNode;
  for (NodeId part = made.call; part > syntax.FunctionOf(made.call); part = syntax[part].parent) {
    const NodeId up = syntax[part].parent;
    if ((syntax.Is(up, Kind::kIf) || syntax.Is(up, Kind::kElif)) &&
        syntax[part].field == f.consequence)
      return syntax.Child(up, f.condition);
  }
  return kNoNode;
}

// True if what decides whether the node is reached asks for the scaler, or for what it is made
// under. That something else does not hold says nothing of it.
bool AsksFor(const FileFacts& facts, NodeId node, std::string_view scaler,
             const std::set<std::string_view>& words) {
  const Fields& f = PythonFields();
  const Syntax& syntax = facts.syntax;
  const auto asks = [&](NodeId condition, bool holds) {
    for (const std::string_view word : WordsOf(facts, condition)) {
      if (word == scaler || (holds && words.contains(word))) return true;
    }
    return false;
  };
  const NodeId function = syntax.FunctionOf(node);
  for (NodeId part = node; part > function; part = syntax[part].parent) {
    const NodeId up = syntax[part].parent;
    const Kind kind = syntax.kind(up);
    if (kind == Kind::kTry || kind == Kind::kBoolean) return true;
    if (kind == Kind::kConditional) {
      const std::vector<NodeId> parts = syntax.Children(up);
      if (parts.size() != 3 || asks(parts[1], part == parts[0])) return true;
    } else if (kind == Kind::kIf || kind == Kind::kElif) {
      if (asks(syntax.Child(up, f.condition), syntax[part].field == f.consequence)) return true;
    }
  }
  for (NodeId id = function; id < node; ++id) {
    const Kind kind = syntax.kind(id);
    const bool leaves = kind == Kind::kReturn || kind == Kind::kRaise;
    if ((leaves && syntax.FunctionOf(id) == function) || syntax.Text(id).starts_with("assert "))
      return true;
  }
  return false;
}

// The state of a scaler that may be None.
void GuessState(const FileFacts& facts, const ScalerMade& made, Sink& sink) {
  const NodeId condition = OnlyUnder(facts, made);
  if (condition == kNoNode) return;
  const std::set<std::string_view> words = WordsOf(facts, condition);
  for (const std::string_view method : {"state_dict", "load_state_dict"}) {
    for (const Call* call : facts.names.CallsNamed(method)) {
      if (call->receiver == kNoNode || facts.names.Key(call->receiver) != made.key ||
          facts.syntax.Enclosing(call->node, Kind::kClass) !=
              facts.syntax.Enclosing(made.call, Kind::kClass) ||
          facts.syntax.FunctionOf(call->node) == facts.syntax.FunctionOf(made.call) ||
          AsksFor(facts, call->node, LastComponent(made.key), words))
        continue;
      MarkGuess(sink.Add(call->node, made.key + " is None unless " +
                                         std::string(facts.syntax.Text(condition)) +
                                         " holds, and nothing here asks for it."));
      return;
    }
  }
}

// The words and keys that the conditions of the branches around the node ask for, between it and
// its function: verbose, amp of `if args.verbose:` and `if cfg["amp"]:`.
std::set<std::string_view> AskedAround(const FileFacts& facts, NodeId node) {
  const Syntax& syntax = facts.syntax;
  const Fields& f = PythonFields();
  std::set<std::string_view> asked;
  const NodeId function = syntax.FunctionOf(node);
  for (NodeId part = node; part > function; part = syntax[part].parent) {
    const NodeId up = syntax[part].parent;
    if (!syntax.Is(up, Kind::kIf) && !syntax.Is(up, Kind::kElif)) continue;
    const NodeId condition = syntax.Child(up, f.condition);
    if (condition == kNoNode || part == condition) continue;
    for (NodeId id = condition; id < syntax[condition].after; ++id) {
      if (syntax.Is(id, Kind::kIdentifier) || syntax.Is(id, Kind::kString))
        asked.insert(syntax.Text(id));
    }
  }
  return asked;
}

// What is made under one condition and used under another: `if verbose: if amp: scaler = …`, and
// behind it `if amp: scaler(loss)`.
void GuessOtherCondition(const FileFacts& facts, Sink& sink) {
  const Syntax& syntax = facts.syntax;
  for (const struct Call& made : facts.names.calls()) {
    if (made.name.size() < 6 || !Holds(LowerCase(made.name), "scaler")) continue;
    const NodeId assignment = syntax[made.node].parent;
    const NodeId target = syntax.Child(assignment, PythonFields().left);
    const NodeId function = syntax.FunctionOf(made.node);
    if (!syntax.Is(assignment, Kind::kAssignment) || !syntax.Is(target, Kind::kIdentifier) ||
        function == 0 || facts.bindings.AssignmentsOf(target).size() != 1)
      continue;
    const std::set<std::string_view> needed = AskedAround(facts, made.node);
    if (needed.empty()) continue;
    for (NodeId use = syntax[assignment].after; use < syntax[function].after; ++use) {
      if (!syntax.Is(use, Kind::kIdentifier) || syntax.Text(use) != syntax.Text(target) ||
          syntax.FunctionOf(use) != function ||
          IsInside(facts, use, syntax[syntax.StatementOf(made.node)].parent))
        continue;
      const NodeId up = syntax[use].parent;
      const bool called = (syntax.Is(up, Kind::kCall) && syntax[up].first_child == use) ||
                          (syntax.Is(up, Kind::kAttribute) && syntax[up].first_child == use);
      const std::set<std::string_view> asked = AskedAround(facts, use);
      // Without any condition it is the rule's own finding, or early returns guard it.
      if (!called || asked.empty() || asked.contains(syntax.Text(target))) continue;
      const bool covered = std::all_of(needed.begin(), needed.end(),
                                       [&](std::string_view word) { return asked.contains(word); });
      if (covered) continue;
      MarkGuess(sink.Add(use, std::string(syntax.Text(target)) +
                                  " is made under other conditions than those around this use: "
                                  "where these hold and those do not, the name does not exist."));
      break;
    }
  }
}

// self.scaler = None, and nothing in the project that ever makes it: None.scale(…).
void GuessNeverMade(const FileFacts& facts, Sink& sink) {
  const Syntax& syntax = facts.syntax;
  std::set<std::string_view> told;
  for (const ScalerCall& call : facts.scalers.calls()) {
    const std::string_view key = call.scaler;
    const auto all = facts.bindings.all().find(key);
    if (!key.starts_with("self.") || told.contains(key) || all == facts.bindings.all().end())
      continue;
    const NodeId klass = syntax.Enclosing(call.call, Kind::kClass);
    const bool none =
        std::all_of(all->second.begin(), all->second.end(), [&](const Assignment& assignment) {
          return syntax.Is(assignment.value, Kind::kNone) &&
                 syntax.Enclosing(assignment.target, Kind::kClass) == klass;
        });
    if (!none || klass == kNoNode || AskedAround(facts, call.call).contains(LastComponent(key)))
      continue;
    // A subclass, a caller or setattr() may make it.
    const std::string name(LastComponent(key));
    const bool elsewhere =
        std::any_of(facts.files->begin(), facts.files->end(), [&](const FileFacts* file) {
          if (HoldsAny(file->syntax.text(), {"\"" + name + "\"", "'" + name + "'"})) return true;
          const auto& keys = file->bindings.all();
          return std::any_of(keys.begin(), keys.end(), [&](const auto& entry) {
            return entry.first.find('.') != std::string::npos &&
                   LastComponent(entry.first) == name &&
                   std::any_of(entry.second.begin(), entry.second.end(), [&](const Assignment& a) {
                     return !file->syntax.Is(a.value, Kind::kNone);
                   });
          });
        });
    if (elsewhere) continue;
    told.insert(key);
    MarkGuess(sink.Add(call.call, std::string(key) +
                                      " is None and nothing ever makes it: this raises "
                                      "AttributeError as soon as mixed precision is on."));
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  GuessOtherCondition(facts, sink);
  GuessNeverMade(facts, sink);
  for (const ScalerMade& made : facts.scalers.made()) {
    GuessState(facts, made, sink);
    const NodeId branch = OnlyIf(facts, made);
    if (branch == kNoNode) continue;
    const NodeId klass = facts.syntax.Enclosing(made.call, Kind::kClass);
    const bool attribute = made.key.starts_with("self.");
    for (const ScalerCall& call : facts.scalers.calls()) {
      if (call.scaler != made.key || IsInside(facts, call.call, branch) ||
          (attribute ? facts.syntax.Enclosing(call.call, Kind::kClass) != klass
                     : facts.syntax.FunctionOf(call.call) != facts.syntax.FunctionOf(made.call)) ||
          IsGuarded(facts, call.call))
        continue;
      sink.Add(
          call.call,
          made.key + " exists only where " +
              std::string(facts.syntax.Text(facts.syntax.Child(branch, PythonFields().condition))) +
              " holds, and is used here whether it does or not.");
      break;
    }
  }
}

}  // namespace mpnanny::static_check::scaler_conditional_attr
