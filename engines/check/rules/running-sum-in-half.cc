#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engines/check/facts/precision_setup.h"
#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::running_sum_in_half {
namespace {

// The value that the variable starts with, a buffer of the class included; nothing is known where
// it has several that differ.
Value StartOf(const FileFacts& facts, NodeId variable) {
  Value start;
  for (const Assignment& assignment : facts.bindings.AssignmentsOf(variable)) {
    if (assignment.value != kNoNode) start = JoinValues(start, facts.dtypes->Of(assignment.value));
  }
  const std::string key = facts.names.Key(variable);
  if (!key.starts_with("self.")) return start;
  const NodeId klass = facts.syntax.Enclosing(variable, Kind::kClass);
  for (const Call* call : facts.names.CallsNamed("register_buffer")) {
    if (facts.syntax.Enclosing(call->node, Kind::kClass) == klass &&
        Literal(facts, facts.names.Argument(call->node, 0, "name")) == LastComponent(key))
      start = JoinValues(start, facts.dtypes->Of(facts.names.Argument(call->node, 1, "tensor")));
  }
  return start;
}

// How often the statement adds to one start: by the loops around it that do not set the variable
// anew. nullopt where that is not in the text; 1 outside of loops.
std::optional<double> TimesAdded(const FileFacts& facts, NodeId statement, NodeId variable) {
  const Syntax& syntax = facts.syntax;
  double times = 1;
  for (NodeId up = syntax[statement].parent; up != kNoNode; up = syntax[up].parent) {
    if (syntax.Is(up, Kind::kFunction) || syntax.Is(up, Kind::kLambda)) break;
    if (!syntax.Is(up, Kind::kFor) && !syntax.Is(up, Kind::kWhile)) continue;
    for (const Assignment& assignment : facts.bindings.AssignmentsOf(variable)) {
      if (assignment.value != kNoNode && IsInside(facts, assignment.target, up)) return times;
    }
    const NodeId over =
        syntax.Is(up, Kind::kFor) ? syntax.Unwrap(syntax.Child(up, PythonFields().right)) : kNoNode;
    const Call* range = facts.names.CallAt(over);
    if (range == nullptr || range->name != "range" || range->receiver != kNoNode ||
        facts.names.Arguments(over).size() != 1)
      return std::nullopt;
    const auto turns = facts.bindings.Number(facts.names.Argument(over, 0, ""));
    if (!turns) return std::nullopt;
    times *= *turns;
  }
  return times;
}

// A sum that is made in 16 bits: what is added leaves it as it is once the sum is `limit` times as
// large.
void CheckSum(const FileFacts& facts, Sink& sink, NodeId statement, NodeId target, Value sum) {
  const double limit = sum.is_fp16() ? 2048 : 256;
  const auto step = facts.bindings.Number(facts.syntax.Child(statement, PythonFields().right));
  const auto times = TimesAdded(facts, statement, target);
  // What a class keeps has no end that the text shows.
  const bool kept = facts.names.Key(target).starts_with("self.") && times == 1.0;
  if (!kept && times && *times <= limit) return;
  if (step && (*step == 0 || !std::isfinite(*step))) return;
  const std::string name(facts.syntax.Text(target));
  RawFinding& finding = sink.Add(
      statement,
      step ? name + " is counted in " + (sum.is_fp16() ? "FP16" : "BF16") + " and ends at " +
                 ShowNumber(limit * *step) + ": one more is less than half of its step there."
           : name + " is added up in " + (sum.is_fp16() ? "FP16" : "BF16") +
                 ": of what is less than 1/" + ShowNumber(2 * limit) + " of it nothing arrives.");
  if (kept ? !step : !times) finding.form = "how-many-unknown";
  NoteUnlessShown(sum, finding);
}

// What all elements of torch.ones(256, 512) and torch.full((256, 512), 2.0) add up to; nullopt for
// other values, and where a size is not in the text.
std::optional<double> SumOfEqual(const FileFacts& facts, NodeId tensor) {
  const auto made = TracedCall(facts, tensor, {"ones", "full"});
  if (!made || made->is_method) return std::nullopt;
  const bool full = made->name == "full";
  const auto value =
      full ? Constant(facts, ArgumentOf(facts, *made, 0, "fill_value")) : std::optional<double>(1);
  if (!value) return std::nullopt;
  double sum = *value;
  std::vector<NodeId> sizes = facts.names.Arguments(made->node);
  const NodeId first = sizes.empty() ? kNoNode : facts.syntax.Unwrap(sizes[0]);
  const bool shape = facts.syntax.Is(first, Kind::kTuple) || facts.syntax.Is(first, Kind::kList);
  if (shape) sizes = facts.syntax.Children(first);
  if (full && !shape) return std::nullopt;
  for (const NodeId size : sizes) {
    if (facts.syntax.Is(facts.syntax[size].parent, Kind::kKeywordArgument)) continue;  // dtype=
    const auto number = facts.bindings.Number(size);
    if (!number) return std::nullopt;
    sum *= *number;
  }
  return sum;
}

// torch.ones(300, 300, dtype=torch.float16).sum()
void CheckEqual(const FileFacts& facts, Sink& sink, const TorchCall& call) {
  const Value type = facts.dtypes->Of(call.node);
  if (!type.is_fp16() || !facts.dtypes->Of(call.tensor).is_fp16() ||
      ArgumentOf(facts, call, 0, "dim") != kNoNode)
    return;
  const auto sum = SumOfEqual(facts, call.tensor);
  if (!sum || std::abs(*sum) <= kFp16Max) return;
  NoteUnlessShown(type, sink.Add(call.node, "The sum is " + ShowNumber(*sum) +
                                                ", which is inf in the FP16 of its tensor."));
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  const Fields& f = PythonFields();
  ForEachTorchCall(facts, {"sum"}, [&](const TorchCall& call) { CheckEqual(facts, sink, call); });
  for (const NodeId statement : facts.augmented) {
    const NodeId target = facts.syntax.Child(statement, f.left);
    const std::string key = facts.names.Key(target);
    const bool element = facts.syntax.Is(target, Kind::kSubscript);
    if (key.empty() || element ||
        facts.syntax.Text(facts.syntax.Child(statement, f.operator_)) != "+=")
      continue;
    const Value start = StartOf(facts, target);
    if (start.type == Type::kFp16 || start.type == Type::kBf16)
      CheckSum(facts, sink, statement, target, start);
  }
}

}  // namespace mpnanny::check::running_sum_in_half
