#include <algorithm>
#include <set>

#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::backward_unscaled {
namespace {

// True if the loss on which backward() is called was computed under FP16 autocast on CUDA, in the
// same function: where it got its value last.
bool IsFp16Loss(const FileFacts& facts, NodeId backward) {
  const NodeId loss = facts.names.Receiver(backward);
  const Autocast* autocast = nullptr;
  for (const Assignment& assignment : facts.bindings.AssignmentsOf(loss)) {
    if (facts.syntax.FunctionOf(assignment.target) == facts.syntax.FunctionOf(backward) &&
        assignment.target < backward && assignment.value != kNoNode)
      autocast = facts.regions.At(assignment.target);
  }
  return autocast != nullptr && autocast->enabled == Tri::kYes && !autocast->foreign &&
         autocast->device == Device::kCuda && autocast->dtype == HalfType::kFp16;
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  // With enabled=False nothing is ever scaled, and nothing is unscaled.
  const auto& made = facts.scalers.made();
  if (std::any_of(made.begin(), made.end(), [](const ScalerMade& m) { return m.enabled_false; }))
    return;
  std::set<NodeId> reported;
  ReportViolations(facts, Violation::Kind::kPlainBackward, sink, [&](const Violation& v) {
    reported.insert(v.node);
    return "This loss is not scaled, and " + v.scaler +
           " then divides its gradients by the loss scale.";
  });
  for (const Violation& v : facts.protocol->violations()) {
    if (v.kind != Violation::Kind::kPlainLoss || v.node != v.inner || reported.contains(v.node) ||
        !IsFp16Loss(facts, v.node))
      continue;
    sink.Add(v.node,
             "This loss comes from FP16 autocast and is not scaled, although there is a "
             "GradScaler: small gradients become zero.")
        .confidence = "medium";
  }
}

}  // namespace mpnanny::static_check::backward_unscaled
