#include <string>
#include <string_view>

#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::sqrt_div_no_eps {
namespace {

// What an FP16 value is that is zero for plausible inputs; "" if its form does not say so.
std::string_view MayBeZero(const FileFacts& facts, NodeId expression, int depth = 6) {
  if (depth == 0) return {};
  const NodeId id = Traced(facts, expression);
  if (SquareOf(facts, id) != kNoNode) return "a square";
  if (OperatorOf(facts, id) == "-") {
    // max - min, E[x^2] - E[x]^2.
    const Fields& f = PythonFields();
    const auto left = TracedCall(facts, facts.syntax.Child(id, f.left), {"max", "amax"});
    const auto right = TracedCall(facts, facts.syntax.Child(id, f.right), {"min", "amin"});
    if (left && right) return "a range";
    return {};
  }
  const auto call = TorchCallAt(facts, id);
  if (!call) return {};
  if (call->name == "var") return "a variance";
  if (call->name == "std") return "a standard deviation";
  if (call->name == "norm" || call->name == "vector_norm") return "a norm";
  if (call->name == "relu") return "a rectified value";
  const bool sum =
      call->name == "sum" || call->name == "mean" || call->name == "max" || call->name == "amax";
  if (sum && SquareOf(facts, call->tensor) != kNoNode) return "a sum of squares";
  if (sum && TracedCall(facts, call->tensor, {"abs", "relu"})) return "a sum of magnitudes";
  if (call->name == "unsqueeze" || call->name == "view" || call->name == "expand_as" ||
      call->name == "sqrt")
    return MayBeZero(facts, call->tensor, depth - 1);
  return {};
}

// intersection / union: zero where neither a prediction nor a target is there, which 16 bits make
// of small probabilities as well. Nothing in what made it keeps it from zero.
void GuessUnion(const FileFacts& facts, Sink& sink, NodeId node, NodeId divisor) {
  const NodeId id = facts.syntax.Unwrap(divisor);
  if (!facts.syntax.Is(id, Kind::kIdentifier) || facts.syntax.FunctionOf(node) == 0) return;
  const std::string_view name = facts.syntax.Text(id);
  if (!HoldsAny(name, {"union", "cardinality", "denom"}) || facts.bindings.Number(id)) return;
  bool sums = false;
  for (const Assignment& assignment : facts.bindings.AssignmentsOf(id)) {
    if (assignment.value == kNoNode) return;
    const std::string_view text = facts.syntax.Text(assignment.value);
    // A constant that is added, or a bound, keeps it from zero; exp() is positive.
    if (text.size() > 200 || HoldsAny(text, {"eps", "1e-", "clamp", "clip", "max", "smooth", "1.0",
                                             "+ 1", "EPS", "tiny", "exp", "where", "len("}))
      return;
    sums = sums || HoldsAny(text, {".sum(", "cumsum(", "torch.sum("});
  }
  // `if union == 0`, `union > 0`: somebody has thought of it.
  const std::string_view body = facts.syntax.Text(facts.syntax.FunctionOf(node));
  const std::string own(name);
  if (!sums || HoldsAny(body, {own + " == 0", own + " > 0", own + " += ", "if not " + own,
                               own + "[" + own, "nan_to_num", "if " + own}))
    return;
  const HalfGuess anywhere = HalfGuess::Anywhere(facts, node);
  if (!anywhere.any()) return;
  MarkGuess(sink.Add(node, "Nothing keeps " + own +
                               " from zero: 16 bits round small probabilities to it, and 0 / 0 is "
                               "NaN. An epsilon that the type can hold (1e-4 in FP16), or FP32."));
}

void Report(const FileFacts& facts, Sink& sink, NodeId node, NodeId operand,
            std::string_view what) {
  const Value type = facts.dtypes->Of(operand);
  if (!MayTrain(facts, node)) return;
  const std::string_view zero = MayBeZero(facts, operand);
  if (zero.empty()) return;
  if (!type.is_fp16()) {
    const HalfGuess anywhere = HalfGuess::Anywhere(facts, node);
    if (anywhere.fp16() && facts.syntax.FunctionOf(node) != 0 && anywhere.MayBeHalf(operand))
      MarkGuess(sink.Add(node, "If this is FP16: " + std::string(what) + " " + std::string(zero) +
                                   " without an epsilon is inf or NaN for differences below "
                                   "2.4e-4."));
    return;
  }
  RawFinding& finding =
      sink.Add(node, std::string(what) + " " + std::string(zero) +
                         " in FP16 without an epsilon: it is zero not only for constant input, but "
                         "for differences below 2.4e-4.");
  NoteAssumed(type, finding);
}

// sqrt(diff ** 2 + c ** 2) of a difference that nothing casts to FP32: pseudo-Huber, Charbonnier.
void GuessLoss(const FileFacts& facts, Sink& sink, const TorchCall& call) {
  const Fields& f = PythonFields();
  const NodeId sum = Traced(facts, call.tensor);
  if (OperatorOf(facts, sum) != "+") return;
  NodeId base = SquareOf(facts, facts.syntax.Child(sum, f.left));
  if (base == kNoNode) base = SquareOf(facts, facts.syntax.Child(sum, f.right));
  const NodeId difference = Traced(facts, base);
  if (base == kNoNode || OperatorOf(facts, difference) != "-") return;
  // What is added keeps the root from zero where FP16 holds it beside the square.
  const HalfGuess guess = HalfGuess::IfCast(facts, call.node);
  if (!guess.any() || !MayTrain(facts, call.node) || facts.syntax.FunctionOf(call.node) == 0 ||
      !guess.MayBeHalf(difference))
    return;
  for (const uint16_t side : {f.left, f.right}) {
    const NodeId part = facts.syntax.Child(difference, side);
    if (guess.IsKnown(part) || facts.syntax.Text(part).find(".float()") != std::string_view::npos)
      return;
  }
  MarkGuess(sink.Add(call.node,
                     "The root of a squared difference: if it is 16-bit, differences below 2.4e-4 "
                     "are zero in FP16, and their gradient depends on what is added. Take the "
                     "difference in FP32."));
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.HasHalfChoice()) return;
  ForEachTorchCall(facts, {"sqrt", "rsqrt"}, [&](const TorchCall& call) {
    Report(facts, sink, call.node, call.tensor, "The root of");
    if (call.name == "sqrt") GuessLoss(facts, sink, call);
  });
  for (const NodeId id : facts.binaries) {
    if (OperatorOf(facts, id) != "/") continue;
    const NodeId right = facts.syntax.Child(id, PythonFields().right);
    if (TracedCall(facts, right, {"relu"})) continue;
    Report(facts, sink, id, right, "A division by");
    GuessUnion(facts, sink, id, right);
  }
  for (const NodeId id : facts.augmented) {
    if (facts.syntax.Text(facts.syntax.Child(id, PythonFields().operator_)) == "/=")
      Report(facts, sink, id, facts.syntax.Child(id, PythonFields().right), "A division by");
  }
}

}  // namespace mpnanny::static_check::sqrt_div_no_eps
