#include <algorithm>
#include <string>

#include "engines/check/rule_support.h"

namespace mpnanny::check::backward_in_autocast {
namespace {

// accelerator.backward(loss) and Lightning's manual_backward(loss) run one, too.
bool IsBackward(const struct Call& call) {
  return call.receiver != kNoNode && (call.method == "backward" || call.name == "manual_backward");
}

// True if the function itself runs a backward pass.
bool RunsBackward(const FileFacts& facts, const Function& function) {
  if (function.node == 0) return false;
  for (const std::string_view name : {"backward", "manual_backward"}) {
    for (const struct Call* call : facts.names.CallsNamed(name)) {
      if (IsBackward(*call) && facts.syntax.FunctionOf(call->node) == function.node) return true;
    }
  }
  return false;
}

// loss_scaler(loss, optimizer, …): a wrapper that scales, runs backward and steps.
bool CallsWrapper(const FileFacts& facts, const struct Call& call) {
  const NodeId callable = facts.syntax.Child(call.node, PythonFields().function);
  const std::string key = facts.names.Key(callable);
  if (key.empty() || facts.names.Arguments(call.node).size() < 2) return false;
  const auto& wrappers = facts.scalers.wrappers();
  return LastComponent(key) == "loss_scaler" ||
         std::any_of(wrappers.begin(), wrappers.end(),
                     [&](const ScalerMade& made) { return made.key == key; });
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (facts.regions.all().empty()) return;
  for (const struct Call& call : facts.names.calls()) {
    const Autocast* autocast = facts.regions.At(call.node);
    if (autocast == nullptr || autocast->enabled == Tri::kNo ||
        facts.syntax.Text(autocast->node).find("disable") != std::string_view::npos)
      continue;
    // The region's own expression is not inside it.
    if (IsInside(facts, call.node, autocast->node)) continue;
    if (IsBackward(call)) {
      sink.Add(call.node).guess = autocast->foreign;
    } else if (CallsWrapper(facts, call)) {
      sink.Add(call.node,
               "This wrapper of a GradScaler runs backward() inside the autocast region.")
          .guess = autocast->foreign;
    } else if (const Definition callee = facts.Callee(call.node);
               callee.function != nullptr &&
               RunsBackward(*(*facts.files)[callee.module], *callee.function)) {
      sink.Add(call.node,
               callee.function->name + "() runs backward(), here inside the autocast region.")
          .guess = autocast->foreign;
    }
  }
}

}  // namespace mpnanny::check::backward_in_autocast
