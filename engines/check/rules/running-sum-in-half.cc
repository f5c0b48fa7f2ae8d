#include <string>
#include <string_view>

#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::running_sum_in_half {

// True for a variable that adds up over steps: total_loss, running, epoch_loss, sum, correct.
static bool AddsUp(std::string_view name) {
  return HoldsAny(
      name, {"total", "running", "epoch", "sum", "accum", "correct", "cum", "avg", "tr_loss"});
}

// True if what is read before the loop is a 16-bit value or a Python number, and no wider tensor.
static bool StartsNarrow(const FileFacts& facts, NodeId variable) {
  for (const Assignment& assignment : facts.bindings.AssignmentsOf(variable)) {
    if (assignment.value == kNoNode) continue;
    const Value value = facts.dtypes->Of(assignment.value);
    if (!value.is_16bit() && !facts.bindings.Number(assignment.value)) return false;
  }
  return true;
}

void Check(const FileFacts& facts, Sink& sink) {
  const Fields& f = PythonFields();
  if (facts.augmented.empty()) return;
  for (const auto& [key, assignments] : facts.bindings.all()) {
    if (!AddsUp(LastComponent(key))) continue;
    for (const Assignment& assignment : assignments) {
      if (assignment.value != kNoNode) continue;
      const NodeId statement = facts.syntax[assignment.target].parent;
      if (!facts.syntax.Is(statement, Kind::kAugmentedAssignment) ||
          facts.syntax.Text(facts.syntax.Child(statement, f.operator_)) != "+=")
        continue;
      if (facts.syntax.Enclosing(statement, Kind::kFor) == kNoNode &&
          facts.syntax.Enclosing(statement, Kind::kWhile) == kNoNode)
        continue;
      const Value added = facts.dtypes->Of(facts.syntax.Child(statement, f.right));
      if (!added.is_16bit() || !StartsNarrow(facts, assignment.target)) continue;
      RawFinding& finding =
          sink.Add(statement, std::string(facts.syntax.Text(assignment.target)) + " adds up " +
                                  (added.is_fp16()             ? "FP16"
                                   : added.type == Type::kBf16 ? "BF16"
                                                               : "16-bit") +
                                  " values in their own type.");
      NoteAssumed(added, finding);
    }
  }
}

}  // namespace mpnanny::check::running_sum_in_half
