#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::autocast_no_dtype {

// True if the expression may be a device type: no dtype, no constant.
static bool MayBeDevice(const FileFacts& facts, NodeId expression) {
  const NodeId value = facts.bindings.ValueOf(expression);
  return expression != kNoNode && !facts.syntax.Is(value, Kind::kTrue) &&
         !facts.syntax.Is(value, Kind::kFalse) && !facts.names.Resolve(value).starts_with("torch.");
}

// The call that makes the region, also through a name and out of `autocast(…) if amp else
// nullcontext()`; null if there is none.
static const Call* CallOf(const FileFacts& facts, NodeId made) {
  const NodeId value = facts.bindings.ValueOf(made);
  if (facts.syntax.Is(value, Kind::kConditional)) {
    for (const NodeId part : facts.syntax.Children(value)) {
      const Call* call = facts.names.CallAt(facts.syntax.Unwrap(part));
      if (call != nullptr && IsAutocast(call->callee)) return call;
    }
  }
  return facts.names.CallAt(value);
}

void Check(const FileFacts& facts, Sink& sink) {
  if (facts.regions.all().empty() || Holds(facts.syntax.text(), "set_autocast")) return;
  for (const Autocast& autocast : facts.regions.all()) {
    const Call* call = CallOf(facts, autocast.node);
    if (call == nullptr || !IsAutocast(call->callee) || autocast.dtype_given ||
        autocast.enabled == Tri::kNo || HasSplat(facts, call->node))
      continue;
    const NodeId function = facts.syntax.FunctionOf(call->node);
    if (autocast.device == Device::kUnknown) {
      // With a scaler FP16 is meant, and a CPU is not.
      if (!facts.project.grad_scaler &&
          MayBeDevice(facts, facts.names.Argument(call->node, 0, "device_type")))
        sink.Add(call->node,
                 "The device is computed and no dtype is given: this runs in FP16 on CUDA and in "
                 "BF16 on a CPU.");
    } else if (autocast.device == Device::kCuda) {
      // Another region of the file has made a choice; a function that has one region for each
      // format has made it itself.
      bool chosen = false;
      bool switches = false;
      for (const Autocast& other : facts.regions.all()) {
        const bool names = other.dtype_given && other.dtype != HalfType::kFp16 &&
                           other.enabled != Tri::kNo && other.device != Device::kCpu;
        chosen = chosen || names;
        switches =
            switches || (names && facts.syntax.FunctionOf(other.node) == function && function != 0);
      }
      if (chosen && !switches)
        sink.Add(call->node,
                 "No dtype is given, so this runs in FP16, whereas another autocast of this file "
                 "names its dtype.");
    }
  }
}

}  // namespace mpnanny::check::autocast_no_dtype
