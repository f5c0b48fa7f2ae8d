#include <string>
#include <string_view>

#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::dropout_mask_in_half {
namespace {

// Whose type the random numbers have: x of rand_like(x), rand(…, dtype=x.dtype),
// x.new_empty(…).uniform_(), rand(…).type_as(x); kNoNode where it is FP32 or not told.
NodeId TypedAs(const FileFacts& facts, const Call& call, NodeId* last) {
  const Fields& f = PythonFields();
  *last = call.node;
  const NodeId dtype = facts.names.Argument(call.node, -1, "dtype");
  if (dtype != kNoNode) {
    const NodeId id = facts.syntax.Unwrap(dtype);
    const bool of = facts.syntax.Is(id, Kind::kAttribute) &&
                    facts.syntax.Text(facts.syntax.Child(id, f.attribute)) == "dtype";
    return of ? facts.syntax.Child(id, f.object) : kNoNode;
  }
  if (call.name == "rand_like") return facts.names.Argument(call.node, 0, "input");
  if (call.name == "uniform_") {
    const Call* made = call.receiver == kNoNode ? nullptr : facts.names.CallAt(call.receiver);
    if (made == nullptr || facts.names.Argument(made->node, -1, "dtype") != kNoNode) return kNoNode;
    if (made->method.starts_with("new_")) return made->receiver;
    return made->name.ends_with("_like") ? facts.names.Argument(made->node, 0, "input") : kNoNode;
  }
  // rand(…).type_as(x)
  const NodeId attribute = facts.syntax[call.node].parent;
  const Call* cast = facts.syntax.Is(attribute, Kind::kAttribute)
                         ? facts.names.CallAt(facts.syntax[attribute].parent)
                         : nullptr;
  if (cast == nullptr || cast->method != "type_as") return kNoNode;
  *last = cast->node;
  return facts.names.Argument(cast->node, 0, "other");
}

// True if the numbers decide what is kept: compared with a rate, or rounded down behind a sum.
bool Decides(const FileFacts& facts, NodeId id) {
  const Syntax& syntax = facts.syntax;
  const std::string_view function = syntax.Text(syntax.FunctionOf(id));
  for (NodeId up = syntax[id].parent; up != kNoNode; id = up, up = syntax[up].parent) {
    if (syntax.Is(up, Kind::kComparison)) return true;
    if (syntax.Is(up, Kind::kBinary)) {
      if (OperatorOf(facts, up) != "+") return false;
      continue;
    }
    if (syntax.Is(up, Kind::kAttribute)) {
      const std::string_view method = syntax.Text(syntax.Child(up, PythonFields().attribute));
      return method == "floor" || method == "floor_" || method == "lt" || method == "gt" ||
             method == "ge" || method == "le";
    }
    if (syntax.Is(up, Kind::kAssignment)) {
      const std::string name(syntax.Text(syntax.Child(up, PythonFields().left)));
      for (const char* use : {".floor", " < ", " > ", " >= ", " <= "}) {
        if (Holds(function, name + use)) return true;
      }
      return Holds(function, "< " + name) || Holds(function, "> " + name) ||
             Holds(function, "floor(" + name);
    }
    if (!syntax.Is(up, Kind::kParenthesized)) return Holds(syntax.Text(up).substr(0, 20), "floor(");
  }
  return false;
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.sixteen_bit) return;
  for (const std::string_view name : {"rand_like", "rand", "uniform_"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (call->name != "uniform_" && !call->callee.starts_with("torch.")) continue;
      NodeId last = kNoNode;
      const NodeId like = TypedAs(facts, *call, &last);
      if (like == kNoNode || !MayTrain(facts, call->node) || !Decides(facts, last)) continue;
      const Value type = facts.dtypes->Of(like);
      if (type.is_16bit()) NoteAssumed(type, sink.Add(call->node));
    }
  }
}

}  // namespace mpnanny::check::dropout_mask_in_half
