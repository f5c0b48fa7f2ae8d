#include <optional>
#include <string>
#include <string_view>

#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/precision_setup.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::running_sum_in_half {

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

// Statistics that a module keeps in a buffer: model.half() converts it with the weights.
static void GuessBuffers(const FileFacts& facts, Sink& sink) {
  const ProjectFacts& project = facts.project;
  if (!project.HasHalfChoice()) return;
  for (const Call* call : facts.names.CallsNamed("register_buffer")) {
    const std::string_view name = Literal(facts, facts.names.Argument(call->node, 0, "name"));
    const std::string_view value = facts.syntax.Text(facts.names.Argument(call->node, 1, "tensor"));
    if (!HoldsAny(name, {"ema", "running", "count", "expert_bias", "_avg", "average", "_mean",
                         "_var", "_sum", "cluster_size", "total", "usage", "momentum", "moving"}) ||
        Holds(value, "long") || Holds(value, "int"))
      continue;
    const NodeId klass = facts.syntax.Enclosing(call->node, Kind::kClass);
    if (klass == kNoNode) continue;
    const std::string_view text = facts.syntax.Text(klass);
    const std::string self = "self." + std::string(name);
    bool minded = HoldsAny(text, {"def _apply", "def half(", "def to("});
    for (const char* tail : {".float()", ".data", ".to(torch.float", ".dtype", ".double()"})
      minded = minded || Holds(text, self + tail);
    if (minded) continue;
    MarkGuess(sink.Add(call->node,
                       "A cast of the model (half(), to(bfloat16), a 16-bit wrapper) converts this "
                       "buffer too: in BF16 an update below 2^-9 of its value is lost, in FP16 one "
                       "below 2^-12."));
  }
}

// total += loss.detach(): in the type of the loss, step by step.
static void GuessTotals(const FileFacts& facts, Sink& sink) {
  const Fields& f = PythonFields();
  for (const NodeId id : facts.augmented) {
    if (facts.syntax.Text(facts.syntax.Child(id, f.operator_)) != "+=" ||
        LoopOf(facts, id) == kNoNode)
      continue;
    const std::string_view added = facts.syntax.Text(facts.syntax.Child(id, f.right));
    if (!HoldsAny(added, {".detach()", ".data", ".clone()"}) || added.size() > 120 ||
        HoldsAny(added, {".float()", ".item()", "float32", ".double()", "float("}))
      continue;
    const HalfGuess anywhere = HalfGuess::Anywhere(facts, id);
    if (!anywhere.any() || facts.dtypes->Of(facts.syntax.Child(id, f.right)).type == Type::kFp32 ||
        anywhere.IsKnown(facts.syntax.Child(id, f.left)))
      continue;
    MarkGuess(sink.Add(id,
                       "Adds up in the type of what is added: if the loss is 16-bit, the total no "
                       "longer grows once it is 256 times (BF16) or 2048 times (FP16) as large."));
  }
}

// h = zeros(…, dtype=x.dtype); for …: h = a * h + b: a state that every step rounds.
static void GuessRecurrences(const FileFacts& facts, Sink& sink) {
  const Fields& f = PythonFields();
  for (const NodeId id : facts.assignments) {
    const NodeId target = facts.syntax.Child(id, f.left);
    const NodeId value = facts.syntax.Unwrap(facts.syntax.Child(id, f.right));
    if (!facts.syntax.Is(target, Kind::kIdentifier) || !facts.syntax.Is(value, Kind::kBinary) ||
        LoopOf(facts, id) == kNoNode || OperatorOf(facts, value) != "+")
      continue;
    const std::string_view name = facts.syntax.Text(target);
    const std::string own(name);
    const std::string_view made = facts.syntax.Text(value);
    if (made.size() > 200 || HoldsAny(made, {".float()", "float32"}) ||
        !HoldsAny(made, {"* " + own + " ", "* " + own + "[", own + " * ", own + ") +"}))
      continue;
    NodeId start = kNoNode;
    for (const Assignment& assignment : facts.bindings.AssignmentsOf(target)) {
      if (assignment.value != kNoNode && facts.syntax[assignment.value].after <= id)
        start = assignment.value;
      if (start != kNoNode) break;
    }
    const std::string_view begin = start == kNoNode ? "" : facts.syntax.Text(start);
    const HalfGuess anywhere = HalfGuess::Anywhere(facts, id);
    if (!HoldsAny(begin, {"_like(", "new_zeros(", ".dtype"}) ||
        HoldsAny(begin, {"float32", ".float()"}) || !anywhere.any())
      continue;
    MarkGuess(sink.Add(id,
                       "A state that goes from step to step in the type of the activations: if "
                       "that is 16-bit, each step rounds it to 8 or 11 bits, and small terms are "
                       "lost. Keep it in FP32 and cast what is returned."));
  }
}

// state["exp_avg_sq"] = torch.zeros_like(p): moments in the type of the weights.
static void GuessMoments(const FileFacts& facts, Sink& sink) {
  if (!HoldsAny(facts.syntax.text(), {"exp_avg", "momentum", "moment"})) return;
  const Fields& f = PythonFields();
  for (const NodeId id : facts.assignments) {
    const std::string_view target = facts.syntax.Text(facts.syntax.Child(id, f.left));
    const std::string_view value = facts.syntax.Text(facts.syntax.Child(id, f.right));
    if (target.size() > 80 || value.size() > 160 || !Holds(target, "[") ||
        !HoldsAny(target, {"exp_avg", "momentum", "moment", "square_avg", "ema"}) ||
        !HoldsAny(value, {"zeros_like(", "clone(", "dtype=p.dtype", "dtype=param.dtype",
                          "dtype=grad.dtype"}) ||
        HoldsAny(value, {"float", "dtype=torch", "dtype=self", "dtype=state"}) ||
        facts.syntax.Enclosing(id, Kind::kClass) == kNoNode)
      continue;
    MarkGuess(sink.Add(id,
                       "The moment has the type of the weights: if those are 16-bit, what a step "
                       "adds (0.001 of its value with beta 0.999) is below the rounding of BF16 "
                       "and FP16, and in FP16 squares of gradients below 2.4e-4 are zero."));
  }
}

void Check(const FileFacts& facts, Sink& sink) {
  const Fields& f = PythonFields();
  GuessBuffers(facts, sink);
  if (facts.project.HasHalfChoice()) GuessMoments(facts, sink);
  if (facts.project.HasHalfChoice()) GuessRecurrences(facts, sink);
  GuessTotals(facts, sink);
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

}  // namespace mpnanny::static_check::running_sum_in_half
