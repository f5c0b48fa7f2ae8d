#include "engines/check/facts/switched_off.h"

namespace mpnanny::check {

bool IsCalledWithAutocastOff(const Bindings& bindings, const Regions& regions, NodeId function,
                             int depth) {
  const Syntax& syntax = bindings.syntax();
  const NodeId klass = syntax.Enclosing(function, Kind::kClass);
  if (!syntax.Is(function, Kind::kFunction) || klass == kNoNode || depth == 0) return false;
  const std::string_view name = syntax.Text(syntax.Child(function, PythonFields().name));
  bool called = false;
  for (const Call* call : bindings.names().CallsNamed(name)) {
    if (call->receiver == kNoNode || syntax.Text(call->receiver) != "self" ||
        syntax.Enclosing(call->node, Kind::kClass) != klass)
      continue;
    const Autocast* around = regions.At(call->node);
    const bool off =
        around != nullptr
            ? around->enabled == Tri::kNo
            : IsCalledWithAutocastOff(bindings, regions, syntax.FunctionOf(call->node), depth - 1);
    if (!off) return false;
    called = true;
  }
  return called;
}

}  // namespace mpnanny::check
