#include <algorithm>
#include <string>
#include <string_view>

#include "engines/check/rule_support.h"

namespace mpnanny::check::nan_hiding {
namespace {

// True if backward() is called on that variable, or on what a scaler makes of it, behind `node` in
// the same function.
bool IsTrainedOn(const FileFacts& facts, std::string_view variable, NodeId node) {
  const Syntax& syntax = facts.syntax;
  for (const struct Call* call : facts.names.CallsNamed("backward")) {
    if (call->node < node || call->receiver == kNoNode ||
        syntax.FunctionOf(call->node) != syntax.FunctionOf(node))
      continue;
    for (NodeId id = call->receiver; id < syntax[call->receiver].after; ++id) {
      if (syntax.Is(id, Kind::kIdentifier) && syntax.Text(id) == variable) return true;
    }
  }
  return false;
}

// True if the value is a number or a new tensor, so that nothing of the loss is left in it.
bool IsConstant(const FileFacts& facts, NodeId value) {
  const NodeId id = facts.syntax.Unwrap(value);
  if (facts.bindings.Number(id)) return true;
  if (!facts.syntax.Is(id, Kind::kCall)) return false;
  const std::string_view name = TorchFunction(facts.names.Callee(id));
  return name == "tensor" || name == "zeros" || name == "zeros_like" || name == "ones" ||
         name == "full" || name == "nan_to_num";
}

// `if torch.isnan(loss): loss = 0`.
void CheckBranch(const FileFacts& facts, const struct Call& asked, Sink& sink) {
  const Syntax& syntax = facts.syntax;
  const NodeId branch = syntax.Enclosing(asked.node, Kind::kIf);
  if (branch == kNoNode ||
      !IsInside(facts, asked.node, syntax.Child(branch, PythonFields().condition)))
    return;
  NodeId loss = facts.names.Argument(asked.node, 0, "input");
  if (loss == kNoNode) loss = asked.receiver;
  const std::string key = facts.names.Key(loss);
  if (key.empty()) return;
  const NodeId body = syntax.Child(branch, PythonFields().consequence);
  for (NodeId id = body; id < syntax[body].after; ++id) {
    if (syntax.Is(id, Kind::kAssignment) &&
        facts.names.Key(syntax.Child(id, PythonFields().left)) == key &&
        IsConstant(facts, syntax.Child(id, PythonFields().right)) && IsTrainedOn(facts, key, id)) {
      sink.Add(id, "A loss that is NaN becomes a constant, and training goes on with it.");
      return;
    }
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  ReportViolations(
      facts, Violation::Kind::kNanReplaced, sink,
      [](const Violation& v) {
        return "inf and NaN are taken out of the gradients before " + v.scaler +
               " has looked for them: it cannot skip the step nor lower the scale.";
      },
      [](const Violation&, RawFinding& finding) { finding.form = "gradients"; });
  if (!facts.project.sixteen_bit) return;
  for (const std::string_view name : {"isnan", "isinf", "isfinite"}) {
    for (const struct Call* call : facts.names.CallsNamed(name)) CheckBranch(facts, *call, sink);
  }
}

}  // namespace mpnanny::check::nan_hiding
