#include <optional>

#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/switched_off.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/mixed_types/undone_casts.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

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

// A sum or a product of matrices, also behind shapes.
static std::optional<TorchCall> SummedUp(const FileFacts& facts, NodeId expression) {
  NodeId id = Traced(facts, expression);
  if (facts.syntax.Is(id, Kind::kIdentifier)) {
    // The last value that the name was given before.
    NodeId made = kNoNode;
    for (const Assignment& a : facts.bindings.AssignmentsOf(id)) {
      if (a.value != kNoNode && facts.syntax[a.value].after <= id) made = a.value;
    }
    id = facts.syntax.Unwrap(made);
  }
  for (int depth = 0; depth < 4; ++depth) {
    const auto call = TorchCallAt(facts, id);
    if (!call) return std::nullopt;
    for (const std::string_view name : {"sum", "bmm", "matmul", "mm", "einsum", "scatter_add",
                                        "scatter_add_", "index_add", "index_add_", "cumsum"}) {
      if (call->name == name) return call;
    }
    if (!facts.ops.KeepsDtype(call->name)) return std::nullopt;
    id = Traced(facts, call->tensor);
  }
  return std::nullopt;
}

// sum(x) / n, bmm(a, b) / n: what is divided by afterwards is not in time.
static void GuessLateDivision(const FileFacts& facts, Sink& sink, NodeId node, NodeId left) {
  const auto sum = SummedUp(facts, left);
  if (!sum || facts.names.Argument(sum->node, -1, "dtype") != kNoNode) return;
  const bool product = sum->name != "sum" && sum->name != "cumsum";
  const Autocast* here = facts.regions.At(node);
  // Autocast sums in FP32, and multiplies in 16 bits.
  if (here != nullptr && !product) return;
  const HalfGuess anywhere = HalfGuess::Anywhere(facts, node);
  const NodeId of = sum->name == "einsum" ? facts.names.Argument(sum->node, 1, "") : sum->tensor;
  if (!anywhere.fp16() || !anywhere.MayBeHalf(of) || anywhere.IsKnown(of)) return;
  MarkGuess(sink.Add(node, "If this is FP16, " + std::string(sum->name) +
                               " may pass 65504 before the division: what is summed up is to be "
                               "divided first, or summed in FP32."));
}

// area = w * h, (x2 - x1) * (y2 - y1): 256 * 256 is more than FP16 holds.
static void GuessAreas(const FileFacts& facts, Sink& sink, NodeId product) {
  const Fields& f = PythonFields();
  const auto extent = [&](NodeId expression) -> int {
    const NodeId id = Traced(facts, expression);
    const std::string_view text = facts.syntax.Text(id);
    if (text.size() > 80) return 0;
    // batch["height"]: of a tensor, not of an image.
    if (facts.syntax.Is(id, Kind::kSubscript) && HoldsAny(text, {"\"", "'"}))
      return HoldsAny(text, {"height", "width", "_h\"", "_w\"", "num_frames"}) ? 1 : 0;
    // boxes[:, 2] - boxes[:, 0]
    const NodeId of = TorchCallAt(facts, id) && TorchCallAt(facts, id)->name == "clamp"
                          ? facts.syntax.Unwrap(TorchCallAt(facts, id)->tensor)
                          : id;
    if (OperatorOf(facts, of) != "-") return 0;
    const NodeId left = Traced(facts, facts.syntax.Child(of, f.left));
    const NodeId right = Traced(facts, facts.syntax.Child(of, f.right));
    return facts.syntax.Is(left, Kind::kSubscript) && facts.syntax.Is(right, Kind::kSubscript) &&
                   HoldsAny(facts.syntax.Text(left), {"...", ":,"})
               ? 2
               : 0;
  };
  for (const uint16_t side : {f.left, f.right}) {
    const NodeId id = facts.syntax.Unwrap(facts.syntax.Child(product, side));
    const Kind kind = facts.syntax.kind(id);
    const bool name = kind == Kind::kIdentifier && facts.syntax.Text(id).size() <= 10;
    if (!name && kind != Kind::kSubscript && kind != Kind::kBinary && kind != Kind::kCall) return;
  }
  const int left = extent(facts.syntax.Child(product, f.left));
  if (left == 0 || left != extent(facts.syntax.Child(product, f.right))) return;
  if (HoldsAny(facts.syntax.Text(facts.syntax.FunctionOf(product)), {".float()", "float32"}))
    return;
  const HalfGuess anywhere = HalfGuess::Anywhere(facts, product);
  if (!anywhere.fp16() || facts.syntax.FunctionOf(product) == 0) return;
  MarkGuess(sink.Add(product,
                     "An area: if both sides are FP16, it is infinite from 256 * 256 = 65536 on."));
}

static void GuessProducts(const FileFacts& facts, Sink& sink) {
  const Fields& f = PythonFields();
  for (const NodeId id : facts.binaries) {
    const std::string_view op = OperatorOf(facts, id);
    const NodeId left = facts.syntax.Child(id, f.left);
    if (op == "/") GuessLateDivision(facts, sink, id, left);
    if (op == "*") GuessAreas(facts, sink, id);
  }
  ForEachTorchCall(facts, {"div", "div_", "true_divide"}, [&](const TorchCall& call) {
    GuessLateDivision(facts, sink, call.node, call.tensor);
  });
}

// A sum that nobody asks to be FP32.
static void GuessSum(const FileFacts& facts, Sink& sink, const TorchCall& call) {
  if (call.tensor == kNoNode || facts.regions.At(call.node) != nullptr ||
      facts.names.Argument(call.node, -1, "dtype") != kNoNode || !MayTrain(facts, call.node))
    return;
  const HalfGuess guess(facts, call.node);
  if (!guess.weights() || !guess.fp16() || !guess.MayBeHalf(call.tensor)) return;
  MarkGuess(sink.Add(call.node, "If this is FP16, so is what " + std::string(call.name) +
                                    " returns: infinite above 65504, from 2048 on in steps of 2 "
                                    "and more."));
}

// torch.exp(logits).sum(-1): a softmax by hand over the vocabulary, in training or in a metric.
static void GuessExponentials(const FileFacts& facts, Sink& sink, const TorchCall& call) {
  const auto exponential = TracedCall(facts, call.tensor, {"exp"});
  if (!exponential || exponential->tensor == kNoNode ||
      facts.names.Argument(call.node, -1, "dtype") != kNoNode ||
      !HoldsAny(facts.syntax.Text(exponential->tensor).substr(0, 80), {"logit", "score", "sim"}))
    return;
  const HalfGuess guess = HalfGuess::EvenUntrained(facts, call.node);
  if (!guess.weights() || facts.syntax.FunctionOf(call.node) == 0 ||
      !guess.MayBeHalf(exponential->tensor))
    return;
  MarkGuess(sink.Add(call.node,
                     "If the logits are 16-bit, so are their exponentials and this sum over all of "
                     "them: the small ones vanish beside the sum, and what is divided by it has 8 "
                     "or 11 bits. logsumexp of logits.float()."));
}

// out.index_add_(0, index, values): a running sum in the type of what it is added to.
static void GuessScattered(const FileFacts& facts, Sink& sink) {
  ForEachTorchCall(
      facts, {"scatter_add_", "index_add_", "scatter_add", "index_add", "scatter_reduce_"},
      [&](const TorchCall& call) {
        const HalfGuess anywhere = HalfGuess::Anywhere(facts, call.node);
        if (call.tensor == kNoNode || facts.syntax.FunctionOf(call.node) == 0 || !anywhere.any() ||
            !anywhere.MayBeHalf(call.tensor) || anywhere.IsKnown(call.tensor))
          return;
        MarkGuess(sink.Add(call.node,
                           "If this is 16-bit, each value is rounded as it is added: small ones "
                           "are lost beside a sum 256 (BF16) or 2048 (FP16) times their size. Sum "
                           "in FP32 and cast the result."));
      });
}

// torch.matmul(self.fb, x), F.conv2d(x, self.kernel) with a registered buffer: a fixed transform
// (filter bank, blur, wavelet, physical units) that autocast runs in 16 bits.
static void GuessFixedTransforms(const FileFacts& facts, Sink& sink) {
  const std::string_view file = facts.syntax.text();
  if (!Holds(file, "register_buffer")) return;
  const auto buffer = [&](NodeId expression) {
    std::string_view text = facts.syntax.Text(expression);
    if (!text.starts_with("self.") || text.size() > 80) return false;
    text.remove_prefix(5);
    const std::string name(text.substr(0, text.find_first_of(".[(")));
    return !name.empty() && (Holds(file, "register_buffer(\"" + name + "\"") ||
                             Holds(file, "register_buffer('" + name + "'"));
  };
  const auto examine = [&](NodeId node, std::initializer_list<NodeId> operands) {
    bool fixed = false;
    for (const NodeId operand : operands) fixed = fixed || (operand != kNoNode && buffer(operand));
    const HalfGuess anywhere = HalfGuess::Anywhere(facts, node);
    if (!fixed || !anywhere.any() || facts.syntax.FunctionOf(node) == 0 ||
        IsCalledWithAutocastOff(facts.bindings, facts.regions, facts.syntax.FunctionOf(node)))
      return;
    MarkGuess(sink.Add(node,
                       "A fixed transform: autocast runs it in 16 bits, which its sums may exceed "
                       "(65504 in FP16) and which rounds what it takes apart. "
                       "autocast(enabled=False) around it keeps it in FP32."));
  };
  const Fields& f = PythonFields();
  for (const NodeId id : facts.binaries) {
    if (OperatorOf(facts, id) == "@")
      examine(id, {facts.syntax.Child(id, f.left), facts.syntax.Child(id, f.right)});
  }
  for (const std::string_view name : {"matmul", "mm", "bmm", "einsum", "linear", "conv1d", "conv2d",
                                      "conv3d", "conv_transpose1d", "conv_transpose2d"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (TorchFunction(call->callee).empty()) continue;
      examine(call->node, {facts.names.Argument(call->node, 0, "input"),
                           facts.names.Argument(call->node, 1, "weight"),
                           facts.names.Argument(call->node, 2, "")});
    }
  }
}

// LigerFusedLinearCrossEntropyLoss(): sums the gradients of its chunks up in the type of the
// weights, unless it is told another.
static void GuessFusedLosses(const FileFacts& facts, Sink& sink) {
  if (!Holds(facts.syntax.text(), "LigerFusedLinear")) return;
  for (const Call& call : facts.names.calls()) {
    if (!call.name.starts_with("LigerFusedLinear") || !call.name.ends_with("Loss") ||
        HasSplat(facts, call.node) || !Holds(call.name, "CrossEntropy") ||
        facts.names.Argument(call.node, -1, "accum_dtype") != kNoNode)
      continue;
    MarkGuess(sink.Add(call.node,
                       "The gradients of the head's weights are summed up over the chunks in their "
                       "own type: in BF16 8 bits of each sum are kept. "
                       "accum_dtype=torch.float32 sums them in FP32."));
  }
}

void Check(const FileFacts& facts, Sink& sink) {
  if (facts.project.HasHalfChoice()) {
    for (const UnlikeWrite& one : FindUndoneCasts(facts)) MarkGuess(sink.Add(one.node, one.why));
    GuessFusedLosses(facts, sink);
    GuessScattered(facts, sink);
    GuessFixedTransforms(facts, sink);
  }
  GuessQuotients(facts, sink);
  GuessGram(facts, sink);
  if (facts.project.HasHalfChoice()) GuessProducts(facts, sink);
  ForEachTorchCall(facts, {"sum", "prod", "nansum"}, [&](const TorchCall& call) {
    const Value type = facts.dtypes->Of(call.node);
    if (!type.is_16bit() || !facts.dtypes->Of(call.tensor).is_16bit()) {
      GuessSquares(facts, sink, call);
      if (call.name == "sum") GuessMean(facts, sink, call);
      GuessSum(facts, sink, call);
      if (call.name == "sum") GuessExponentials(facts, sink, call);
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
