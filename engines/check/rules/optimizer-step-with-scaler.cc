#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engines/check/rule_support.h"

namespace mpnanny::check::optimizer_step_with_scaler {
namespace {

// The classes of torch.optim that the variable may hold: "torch.optim.SGD". Empty if any of its
// values is something else, or not known.
std::set<std::string> Classes(const FileFacts& facts, NodeId optimizer) {
  std::set<std::string> classes;
  for (const Assignment& assignment : facts.bindings.AssignmentsOf(optimizer)) {
    const std::string& callee = facts.names.Callee(facts.syntax.Unwrap(assignment.value));
    if (assignment.value == kNoNode || !callee.starts_with("torch.optim.")) return {};
    classes.insert(callee);
  }
  return classes;
}

// The same for what step() is called on; of a parameter, what all callers hand in.
std::set<std::string> SteppedClasses(const FileFacts& facts, NodeId step) {
  const NodeId optimizer = facts.names.Receiver(step);
  const Function* function = facts.bindings.FunctionAt(facts.syntax.FunctionOf(step));
  const std::string key = facts.names.Key(optimizer);
  if (function == nullptr || std::find(function->parameters.begin(), function->parameters.end(),
                                       key) == function->parameters.end())
    return Classes(facts, optimizer);
  const auto at = std::find(function->parameters.begin(), function->parameters.end(), key);
  std::set<std::string> classes;
  for (const FileFacts* file : *facts.files) {
    for (const CallEdge& edge : facts.modules->Edges(file->number)) {
      if (edge.callee.function != function) continue;
      const NodeId given =
          file->names.Argument(edge.call, static_cast<int>(at - function->parameters.begin()), key);
      std::set<std::string> some =
          given == kNoNode ? std::set<std::string>() : Classes(*file, given);
      if (some.empty()) return {};
      classes.merge(some);
    }
  }
  return classes;
}

// True if the update is as large as the gradients: the others divide a constant factor out.
bool KeepsFactor(const std::string& name) {
  return name == "torch.optim.SGD" || name == "torch.optim.ASGD";
}

// True if the scaler is made with enabled=False, so that nothing is scaled.
bool IsOff(const FileFacts& facts, const std::string& scaler) {
  const auto& made = facts.scalers.made();
  return std::any_of(made.begin(), made.end(),
                     [&](const ScalerMade& one) { return one.key == scaler && one.enabled_false; });
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  std::set<NodeId> updated;
  for (const Violation& v : facts.scaler_order->violations()) {
    if (v.kind == Violation::Kind::kPlainStepUpdated) updated.insert(v.node);
  }
  ReportViolations(
      facts, Violation::Kind::kPlainStepScaled, sink,
      [&](const Violation& v) {
        return v.optimizer + ".step() takes gradients that carry the loss scale of " + v.scaler +
               (updated.contains(v.node) ? ", and update() raises AssertionError." : ".");
      },
      [&](const Violation& v, RawFinding& finding) {
        const std::set<std::string> classes =
            v.inner == kNoNode ? std::set<std::string>() : SteppedClasses(facts, v.inner);
        const bool wrong = std::any_of(classes.begin(), classes.end(), KeepsFactor);
        finding.guess = finding.guess || IsOff(facts, v.scaler);
        if (!wrong && (classes.empty() || !updated.contains(v.node))) finding.form = "scaled";
      });
  ReportViolations(facts, Violation::Kind::kPlainStepAfterScaler, sink, [](const Violation& v) {
    return v.optimizer + ".step() comes on top of " + v.scaler + ".step(" + v.optimizer +
           "): every step is taken twice.";
  });
}

}  // namespace mpnanny::check::optimizer_step_with_scaler
