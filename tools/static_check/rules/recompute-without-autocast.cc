#include <string_view>

#include "tools/static_check/facts/autograd_functions.h"
#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/precision_setup.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::recompute_without_autocast {

// The call of a function that was stored on the context (ctx.run_function(…)), below `root`;
// kNoNode if there is none.
static NodeId StoredCall(const FileFacts& facts, NodeId root) {
  const Fields& f = PythonFields();
  const Syntax& syntax = facts.syntax;
  for (NodeId id = root; id < syntax[root].after; ++id) {
    if (syntax[id].kind != Kind::kCall) continue;
    const NodeId receiver = facts.names.Receiver(id);
    const std::string_view method = facts.names.Method(id);
    if (!syntax.Is(receiver, Kind::kIdentifier) || syntax.Text(receiver) != "ctx") continue;
    // What autograd itself puts there.
    if (method.starts_with("save_for") || method.starts_with("mark_") || method.starts_with("set_"))
      continue;
    const NodeId arguments = syntax.Child(id, f.arguments);
    if (syntax[arguments].first_child != kNoNode) return id;
  }
  return kNoNode;
}

// The same where the function was taken out of the context first: func = ctx.func; func(*args).
static NodeId NamedCall(const FileFacts& facts, NodeId root) {
  const Syntax& syntax = facts.syntax;
  for (NodeId id = root; id < syntax[root].after; ++id) {
    const NodeId called = syntax.Child(id, PythonFields().function);
    if (!syntax.Is(id, Kind::kCall) || !syntax.Is(called, Kind::kIdentifier)) continue;
    for (const Assignment& assignment : facts.bindings.AssignmentsOf(called)) {
      if (IsInside(facts, assignment.target, root) &&
          syntax.Is(assignment.value, Kind::kAttribute) &&
          syntax.Text(assignment.value).starts_with("ctx.") && !facts.names.Arguments(id).empty())
        return id;
    }
  }
  return kNoNode;
}

void Check(const FileFacts& facts, Sink& sink) {
  const bool sure = facts.project.trains_under_autocast;
  // Where weights are cast as a whole there is no autocast to restore.
  const bool maybe = facts.project.lowers_precision && !facts.project.casts_models;
  if ((!sure && !maybe) || !Holds(facts.syntax.text(), "enable_grad")) return;
  for (const AutogradFunction& function : FindAutogradFunctions(facts)) {
    if (function.custom_bwd || NamesAny(facts, function.klass, {"autocast", "amp"})) continue;
    if (!NamesAny(facts, function.backward, {"enable_grad"})) continue;
    const NodeId call = StoredCall(facts, function.backward);
    if (call != kNoNode && sure) {
      sink.Add(call);
      continue;
    }
    const NodeId guess = call != kNoNode ? call : NamedCall(facts, function.backward);
    if (guess != kNoNode)
      MarkGuess(sink.Add(guess,
                         "Whoever runs this under autocast gets another forward pass here: "
                         "backward() runs without it, so what is recomputed is of other types."));
  }
}

}  // namespace mpnanny::static_check::recompute_without_autocast
