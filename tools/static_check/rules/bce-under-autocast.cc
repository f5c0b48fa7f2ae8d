#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::bce_under_autocast {

// Called directly, or through an object of torch.nn.BCELoss.
static bool IsBce(const FileFacts& facts, NodeId call) {
  const std::string callee = facts.names.Callee(call);
  if (!callee.empty())
    return callee == "torch.nn.functional.binary_cross_entropy" ||
           callee == "torch.binary_cross_entropy";
  const NodeId called = facts.syntax.Unwrap(facts.syntax.Child(call, PythonFields().function));
  const NodeId made =
      facts.syntax.Is(called, Kind::kCall) ? called : facts.bindings.ValueOf(called);
  return made != kNoNode && made != call && facts.names.Callee(made) == "torch.nn.BCELoss";
}

void Check(const FileFacts& facts, Sink& sink) {
  ForEachCall(facts, [&](NodeId call) {
    const Autocast* autocast = facts.regions.At(call);
    if (autocast == nullptr || autocast->enabled == Tri::kNo || autocast->foreign) return;
    if (autocast->device == Device::kCpu || autocast->device == Device::kOther ||
        !IsBce(facts, call))
      return;
    RawFinding& finding = sink.Add(call);
    if (autocast->device == Device::kUnknown) finding.confidence = "medium";
  });
}

}  // namespace mpnanny::static_check::bce_under_autocast
