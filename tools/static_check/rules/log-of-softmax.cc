#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::log_of_softmax {

// "softmax" if the call is a softmax, as a function or as a method.
static bool IsCallOf(const FileFacts& facts, NodeId call, std::string_view name) {
  if (!facts.syntax.Is(call, Kind::kCall)) return false;
  const std::string callee = facts.names.Callee(call);
  if (!callee.empty()) return TorchFunction(callee) == name;
  return facts.names.Method(call) == name;
}

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.sixteen_bit) return;
  ForEachCall(facts, [&](NodeId call) {
    if (!IsCallOf(facts, call, "log")) return;
    const bool method = facts.names.Callee(call).empty();
    if (method && !facts.names.Arguments(call).empty()) return;  // logger.log(…)
    const NodeId argument =
        method ? facts.names.Receiver(call) : facts.names.Argument(call, 0, "input");
    const NodeId value = facts.bindings.ValueOf(argument, 1);
    if (!IsCallOf(facts, value, "softmax")) return;
    sink.Add(call);
  });
}

}  // namespace mpnanny::static_check::log_of_softmax
