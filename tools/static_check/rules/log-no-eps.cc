#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::log_no_eps {
namespace {

// Functions whose result is exactly zero for plausible inputs.
bool GivesZero(const FileFacts& facts, NodeId expression, int depth = 4) {
  const NodeId id = Traced(facts, expression);
  if (depth == 0) return false;
  if (SquareOf(facts, id) != kNoNode) return true;
  const auto call = TorchCallAt(facts, id);
  if (!call) return false;
  if (call->name == "relu" || call->name == "abs" || call->name == "relu_" || call->name == "var" ||
      call->name == "std")
    return true;
  if (call->name == "sum" || call->name == "mean" || call->name == "unsqueeze" ||
      call->name == "view" || call->name == "max" || call->name == "amax")
    return GivesZero(facts, call->tensor, depth - 1);
  return false;
}

// log(p), log(1 - x), log1p(-exp(x)): nothing is added that keeps the argument from zero.
void Guess(const FileFacts& facts, Sink& sink, const TorchCall& call) {
  const Fields& f = PythonFields();
  const NodeId id = Traced(facts, call.tensor);
  if (id == kNoNode || facts.bindings.Number(id)) return;
  const std::string_view text = facts.syntax.Text(id);
  const std::string_view op = OperatorOf(facts, id);
  if (op == "+" || text.size() > 120 ||
      HoldsAny(text, {"clamp", "clip", "eps", "maximum", "1e-", "finfo", "+ 1", "softplus", "num_",
                      "exp(", "size(", "shape"}))
    return;
  const bool complement = op == "-" && facts.bindings.Number(facts.syntax.Child(id, f.left)) == 1.0;
  const bool probability =
      HoldsAny(text, {"prob", "softmax", "sigmoid", "attn", "pred", "score", "alpha", "gate"}) ||
      text == "p" || text == "x" || text == "input";
  if (!complement && !probability) return;
  const HalfGuess anywhere = HalfGuess::Anywhere(facts, call.node);
  if (!anywhere.fp16() || facts.syntax.FunctionOf(call.node) == 0 || !anywhere.MayBeHalf(id))
    return;
  MarkGuess(sink.Add(call.node, complement
                                    ? "If this is FP16, whatever is above 0.9998 is 1 there, and "
                                      "the logarithm of what is left of it -inf."
                                    : "If this is FP16, what is below 3e-8 is zero there, and its "
                                      "logarithm -inf: nothing is added that keeps it from zero."));
}

// log1p(-x): x rounds to 1 long before it is.
void GuessLog1p(const FileFacts& facts, Sink& sink, const TorchCall& call) {
  const Fields& f = PythonFields();
  const NodeId id = Traced(facts, call.tensor);
  if (!facts.syntax.Is(id, Kind::kUnary)) return;
  const NodeId of = facts.syntax.Child(id, f.argument);
  if (!facts.syntax.Text(id).starts_with("-") ||
      HoldsAny(facts.syntax.Text(of), {"clamp", "clip", "eps", "minimum", "exp("}) ||
      facts.bindings.Number(of))
    return;
  const HalfGuess anywhere = HalfGuess::Anywhere(facts, call.node);
  if (!anywhere.any() || facts.syntax.FunctionOf(call.node) == 0 || anywhere.IsKnown(of)) return;
  MarkGuess(sink.Add(call.node,
                     "If this is 16-bit, what is above 0.9998 (FP16) or 0.998 (BF16) is 1 there, "
                     "and the logarithm of what is left of it -inf."));
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.HasHalfChoice()) return;
  ForEachTorchCall(facts, {"log1p"}, [&](const TorchCall& call) { GuessLog1p(facts, sink, call); });
  ForEachTorchCall(facts, {"log", "log2", "log10"}, [&](const TorchCall& call) {
    if (call.is_method && !facts.names.Arguments(call.node).empty()) return;
    const Value type = facts.dtypes->Of(call.tensor);
    if (!type.is_fp16()) {
      Guess(facts, sink, call);
      return;
    }
    if (!MayTrain(facts, call.node) || !GivesZero(facts, call.tensor)) return;
    RawFinding& finding =
        sink.Add(call.node,
                 "The logarithm of an FP16 value that is zero below 3e-8 (a square below 2.4e-4), "
                 "without an epsilon: -inf.");
    NoteAssumed(type, finding);
  });
}

}  // namespace mpnanny::static_check::log_no_eps
