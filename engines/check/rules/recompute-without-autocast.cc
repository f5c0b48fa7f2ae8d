#include <string_view>

#include "engines/check/facts/autograd_functions.h"
#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::recompute_without_autocast {

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

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.trains_under_autocast || !Holds(facts.syntax.text(), "enable_grad")) return;
  for (const AutogradFunction& function : FindAutogradFunctions(facts)) {
    if (function.custom_bwd || NamesAny(facts, function.klass, {"autocast", "amp"})) continue;
    if (!NamesAny(facts, function.backward, {"enable_grad"})) continue;
    const NodeId call = StoredCall(facts, function.backward);
    if (call != kNoNode) sink.Add(call);
  }
}

}  // namespace mpnanny::check::recompute_without_autocast
