#include "tools/static_check/half_guess.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/text_search.h"
#include "tools/static_check/torch_calls.h"

namespace mpnanny::static_check::reduction_in_half {

// The sum of squares: infinite in FP16 from 256 on, zero below 2.4e-4.
static void GuessSquares(const FileFacts& facts, Sink& sink, const TorchCall& call) {
  const NodeId base = SquareOf(facts, call.tensor);
  if (base == kNoNode || facts.regions.At(call.node) != nullptr ||
      facts.names.Argument(call.node, -1, "dtype") != kNoNode || !MayTrain(facts, call.node))
    return;
  const Value type = facts.dtypes->Of(base);
  const bool open = type.type == Type::kUnknown || type.type == Type::kUnseen;
  const bool lowers = facts.project.lowers_precision || facts.project.deepspeed;
  if (!lowers || !open || HalfGuess(facts, call.node).IsKnown(base)) return;
  MarkGuess(sink.Add(call.node, "If " + std::string(facts.syntax.Text(base).substr(0, 40)) +
                                    " is 16-bit, so is the sum of its squares: in FP16 infinite "
                                    "above 65504, and squares below 2.4e-4 are zero."));
}

// out / normaliser where both are matrix products: linear attention, kernel features.
static void GuessQuotients(const FileFacts& facts, Sink& sink) {
  const Fields& f = PythonFields();
  const auto product = [&](NodeId expression) {
    NodeId id = Traced(facts, expression);
    for (int depth = 0; depth < 4; ++depth) {
      if (facts.syntax.Is(id, Kind::kSubscript)) {
        id = Traced(facts, facts.syntax.Child(id, f.value));
      } else if (const std::string_view op = OperatorOf(facts, id); op == "+") {
        id = Traced(facts, facts.syntax.Child(id, f.left));
      } else if (const auto call = TorchCallAt(facts, id);
                 call && (call->name == "clamp" || call->name == "clamp_min" ||
                          call->name == "unsqueeze" || call->name == "squeeze")) {
        id = Traced(facts, call->tensor);
      } else {
        break;
      }
    }
    if (OperatorOf(facts, id) == "@") return true;
    if (facts.syntax.Is(id, Kind::kIdentifier)) {
      for (const Assignment& a : facts.bindings.AssignmentsOf(id)) {
        if (OperatorOf(facts, a.value) == "@" ||
            TracedCall(facts, a.value, {"matmul", "bmm", "einsum"}))
          return true;
      }
    }
    return TracedCall(facts, id, {"matmul", "bmm", "einsum"}).has_value();
  };
  for (const NodeId id : facts.binaries) {
    if (OperatorOf(facts, id) != "/") continue;
    const NodeId left = facts.syntax.Child(id, f.left);
    const NodeId right = facts.syntax.Child(id, f.right);
    const bool reciprocal = facts.bindings.Number(left) == 1.0;
    if (!product(right) || !(reciprocal || product(left))) continue;
    const HalfGuess guess(facts, id);
    if (!guess.any() || !guess.MayBeHalf(right) || guess.IsKnown(left)) continue;
    MarkGuess(sink.Add(id,
                       "A matrix product that nothing normalises is divided by: in FP16 it may "
                       "pass 65504 before the quotient is taken."));
  }
}

// x @ x.T / n: a Gram matrix, whose sums over all positions are taken before they are averaged.
static void GuessGram(const FileFacts& facts, Sink& sink) {
  const Fields& f = PythonFields();
  const auto report = [&](NodeId node, NodeId product) {
    NodeId left = kNoNode;
    NodeId right = kNoNode;
    const NodeId id = Traced(facts, product);
    if (OperatorOf(facts, id) == "@") {
      left = facts.syntax.Child(id, f.left);
      right = facts.syntax.Child(id, f.right);
    } else if (const auto call = TracedCall(facts, id, {"bmm", "matmul", "mm"})) {
      left = call->tensor;
      right =
          ArgumentOf(facts, *call, 0, call->name == "mm" || call->name == "bmm" ? "mat2" : "other");
    }
    const auto turned = TracedCall(facts, right, {"transpose", "permute", "t"});
    const NodeId of = turned ? turned->tensor : kNoNode;
    if (left == kNoNode || of == kNoNode || !SameText(facts, left, of)) return;
    const HalfGuess guess(facts, node);
    if (!guess.fp16() || !guess.MayBeHalf(product) || guess.IsKnown(left)) return;
    MarkGuess(sink.Add(node,
                       "The product of a matrix with itself is averaged behind the sum: in FP16 "
                       "the sum may pass 65504 first."));
  };
  for (const NodeId id : facts.binaries) {
    if (OperatorOf(facts, id) != "/") continue;
    const NodeId right = Traced(facts, facts.syntax.Child(id, f.right));
    if (OperatorOf(facts, right) == "*" || TracedCall(facts, right, {"numel"}))
      report(id, facts.syntax.Child(id, f.left));
  }
  ForEachTorchCall(facts, {"div", "div_"}, [&](const TorchCall& call) {
    const NodeId by = Traced(facts, ArgumentOf(facts, call, 0, "other"));
    if (OperatorOf(facts, by) == "*") report(call.node, call.tensor);
  });
}

// torch.sum(losses) / n: a mean by hand, whose sum is stored in the type of the losses first.
static void GuessMean(const FileFacts& facts, Sink& sink, const TorchCall& call) {
  const Fields& f = PythonFields();
  const NodeId up = facts.syntax[call.node].parent;
  const std::string_view name = facts.syntax.Text(call.tensor);
  if (OperatorOf(facts, up) != "/" || facts.syntax.Child(up, f.left) != call.node ||
      name.find("loss") == std::string_view::npos || name.find("float()") != std::string_view::npos)
    return;
  const std::string_view text = facts.syntax.Text(facts.syntax.FunctionOf(call.node));
  if (Holds(text, "float16") || text.find("dtype ==") != text.npos ||
      facts.names.Argument(call.node, -1, "dtype") != kNoNode || !MayTrain(facts, call.node))
    return;
  const HalfGuess guess = HalfGuess::IfCast(facts, call.node);
  if (!guess.fp16() || !guess.MayBeHalf(call.tensor)) return;
  MarkGuess(sink.Add(call.node,
                     "If the losses are FP16, so is their sum, which may pass 65504 before it is "
                     "divided: mean() divides inside, sum(dtype=torch.float32) has the range."));
}

void Check(const FileFacts& facts, Sink& sink) {
  GuessQuotients(facts, sink);
  GuessGram(facts, sink);
  ForEachTorchCall(facts, {"sum", "prod", "nansum"}, [&](const TorchCall& call) {
    const Value type = facts.dtypes->Of(call.node);
    if (!type.is_16bit() || !facts.dtypes->Of(call.tensor).is_16bit()) {
      GuessSquares(facts, sink, call);
      if (call.name == "sum") GuessMean(facts, sink, call);
      return;
    }
    RawFinding& finding = sink.Add(
        call.node, std::string(call.name) + " returns 16 bits here: " +
                       (type.is_fp16() ? "above 65504 inf, from 2048 on in steps of 2 and more."
                                       : "from 256 on in steps of 2 and more."));
    NoteAssumed(type, finding);
  });
}

}  // namespace mpnanny::static_check::reduction_in_half
