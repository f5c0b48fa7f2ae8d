#include "tools/static_check/protocol.h"

#include <algorithm>

#include "tools/static_check/protocol_machine.h"

namespace mpnanny::static_check {

bool IsClip(const Names& names, NodeId call) {
  const struct Call* known = names.CallAt(call);
  if (known == nullptr) return false;
  for (const std::string_view clip : {"clip_grad_norm_", "clip_grad_value_", "clip_grad_norm",
                                      "dispatch_clip_grad", "clip_gradient", "clip_gradients",
                                      "clip_grads", "clip_grad_value", "clip_grad_norm_fp32"}) {
    if (known->name == clip) return true;
  }
  return false;
}

Protocol::Protocol(const Bindings& bindings, const Scalers& scalers, const CancelToken& cancel) {
  if (scalers.calls().empty() && scalers.made().empty()) return;
  const Code code(bindings, scalers);
  ProtocolMachine machine(code, cancel);
  for (const Function& function : bindings.functions()) {
    if (code.Reaches(function.node) || function.node == 0) machine.Run(function, &violations_);
  }
  // A helper that is wrong by itself is reported there, once, and not at every call.
  std::vector<Violation> kept;
  for (const Violation& violation : violations_) {
    const bool inner_reported =
        violation.inner != violation.node &&
        std::any_of(violations_.begin(), violations_.end(), [&](const Violation& other) {
          return other.kind == violation.kind && other.node == violation.inner;
        });
    if (!inner_reported) kept.push_back(violation);
  }
  violations_ = std::move(kept);
}

}  // namespace mpnanny::static_check
