#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::norm_in_half {

namespace {

// The mean in `x - mean`: a call of it, or one of what var_mean gives.
bool IsMean(const FileFacts& facts, NodeId expression) {
  if (TracedCall(facts, expression, {"mean"})) return true;
  for (const Assignment& assignment : facts.bindings.AssignmentsOf(expression)) {
    if (TracedCall(facts, assignment.value, {"mean"}) ||
        TracedCall(facts, UnpackedFrom(facts.syntax, assignment.target), {"var_mean", "std_mean"}))
      return true;
  }
  return false;
}

// A deviation, a variance under a root, or what a name says is one.
bool IsDeviation(const FileFacts& facts, NodeId expression) {
  NodeId id = Traced(facts, expression);
  for (int depth = 0; depth < 3 && OperatorOf(facts, id) == "+"; ++depth)
    id = Traced(facts, facts.syntax.Child(id, PythonFields().left));
  if (TracedCall(facts, id, {"sqrt", "rsqrt", "sqrt_", "rsqrt_", "std", "std_mean"})) return true;
  if (OperatorOf(facts, id) == "**")
    return facts.bindings.Number(facts.syntax.Child(id, PythonFields().right)).value_or(1) < 1;
  for (const Assignment& assignment : facts.bindings.AssignmentsOf(id)) {
    if (TracedCall(facts, assignment.value, {"std"}) ||
        TracedCall(facts, UnpackedFrom(facts.syntax, assignment.target), {"var_mean", "std_mean"}))
      return true;
  }
  return false;
}

// (x - mean) / sqrt(var + eps): a layer norm by hand.
void GuessByHand(const FileFacts& facts, Sink& sink) {
  const Fields& f = PythonFields();
  for (const NodeId id : facts.binaries) {
    const std::string_view op = OperatorOf(facts, id);
    if (op != "/" && op != "*") continue;
    NodeId centred = Traced(facts, facts.syntax.Child(id, f.left));
    if (OperatorOf(facts, centred) == "*")  // weight * (x - mean)
      centred = Traced(facts, facts.syntax.Child(centred, f.right));
    if (OperatorOf(facts, centred) != "-") continue;
    const NodeId x = facts.syntax.Child(centred, f.left);
    if (!IsMean(facts, facts.syntax.Child(centred, f.right)) ||
        !IsDeviation(facts, facts.syntax.Child(id, f.right)))
      continue;
    const HalfGuess guess = HalfGuess::Widest(facts, id);
    if (!guess.MayBeHalf(x) || guess.IsKnown(facts.syntax.Child(centred, f.right))) continue;
    MarkGuess(sink.Add(id,
                       "A normalisation by hand: if this runs in 16 bits, as the project lets it, "
                       "so does the mean at least, which torch's layers keep in FP32."));
  }
}

// The mean of squares under a root: a root mean square norm by hand.
void GuessMeanSquare(const FileFacts& facts, Sink& sink, NodeId radicand) {
  NodeId id = Traced(facts, radicand);
  for (int depth = 0; depth < 3 && OperatorOf(facts, id) == "+"; ++depth)
    id = Traced(facts, facts.syntax.Child(id, PythonFields().left));
  const auto mean = TracedCall(facts, id, {"mean", "sum"});
  const NodeId base = mean ? SquareOf(facts, mean->tensor) : kNoNode;
  if (base == kNoNode || facts.dtypes->Of(mean->tensor).is_16bit()) return;
  // Of a difference it is a standard deviation or a distance: the other's, or no norm.
  if (OperatorOf(facts, Traced(facts, base)) == "-") return;
  const HalfGuess guess = HalfGuess::Widest(facts, mean->node);
  if (!guess.MayBeHalf(mean->tensor) || !guess.MayBeHalf(base)) return;
  MarkGuess(sink.Add(mean->node,
                     "If this runs in 16 bits, as the project lets it, the squares under the root "
                     "do: in FP16 infinite from 256 on and zero below 2.4e-4."));
}

// p.grad, p.grad.data.detach(): not behind a cast.
bool IsGradient(const FileFacts& facts, NodeId expression) {
  NodeId id = facts.syntax.Unwrap(expression);
  for (int depth = 0; depth < 5; ++depth) {
    // for grad in grads: in a function that measures them.
    if (facts.syntax.Is(id, Kind::kIdentifier)) {
      const std::string_view name = facts.syntax.Text(id);
      return (name == "grad" || name == "g" || name.ends_with("_grad")) &&
             !Holds(facts.syntax.Text(facts.syntax.FunctionOf(id)).substr(0, 120), "autograd") &&
             Holds(facts.syntax.Text(
                       facts.syntax.Child(facts.syntax.FunctionOf(id), PythonFields().name)),
                   "norm");
    }
    if (facts.syntax.Is(id, Kind::kAttribute)) {
      const std::string_view name =
          facts.syntax.Text(facts.syntax.Child(id, PythonFields().attribute));
      if (name == "grad") return true;
      if (name != "data") return false;
      id = facts.syntax.Unwrap(facts.syntax.Child(id, PythonFields().object));
      continue;
    }
    const std::string_view method = facts.names.Method(id);
    if (method != "detach" && method != "abs" && method != "to" && method != "coalesce" &&
        method != "flatten" && method != "view")
      return false;
    if (method == "to" && facts.syntax.Text(id).find("float") != std::string_view::npos)
      return false;
    id = facts.syntax.Unwrap(facts.names.Receiver(id));
  }
  return false;
}

// torch.norm(p.grad.detach(), 2): a norm of gradients by hand, in a project that trains 16-bit
// weights or lets others do it.
bool GuessGradients(const FileFacts& facts, Sink& sink, const TorchCall& call) {
  const ProjectFacts& project = facts.project;
  // An optimizer of a library gets parameters of whatever type.
  const bool weights = facts.path.find("optim/") != std::string::npos || project.casts_models ||
                       project.apex || project.deepspeed || project.fsdp ||
                       !(project.fp16_on_cuda || project.bf16_autocast || project.other_autocast ||
                         project.grad_scaler);
  if (!weights || !IsGradient(facts, call.tensor) ||
      facts.names.Argument(call.node, -1, "dtype") != kNoNode ||
      facts.dtypes->Of(call.tensor).type == Type::kFp32)
    return false;
  MarkGuess(sink.Add(call.node,
                     "Where the weights are 16-bit, so are the gradients and this norm of them: in "
                     "FP16 infinite above 65504, and squares below 2.4e-4 are zero. dtype="
                     "torch.float32 accumulates in FP32."));
  return true;
}

// torch._foreach_norm(grads), get_total_norm(grads): of many tensors at once, each in its own type.
void GuessTotals(const FileFacts& facts, Sink& sink) {
  for (const std::string_view name : {"_foreach_norm", "get_total_norm"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      const NodeId of = facts.names.Argument(call->node, 0, "tensors");
      if (!call->callee.starts_with("torch.") || of == kNoNode ||
          facts.names.Argument(call->node, -1, "dtype") != kNoNode ||
          HoldsAny(facts.syntax.Text(of), {".float()", "float32"}))
        continue;
      MarkGuess(sink.Add(call->node,
                         "Each norm has the type of its tensor: where weights or gradients are "
                         "16-bit it is rounded to 8 or 11 bits, and in FP16 infinite above 65504. "
                         "dtype=torch.float32, or a cast before, keeps it."));
    }
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.HasHalfChoice()) return;
  GuessByHand(facts, sink);
  GuessTotals(facts, sink);
  ForEachTorchCall(facts, {"rsqrt", "sqrt"},
                   [&](const TorchCall& call) { GuessMeanSquare(facts, sink, call.tensor); });
  for (const NodeId id : facts.binaries) {
    if (OperatorOf(facts, id) != "**") continue;
    const auto power = facts.bindings.Number(facts.syntax.Child(id, PythonFields().right));
    if (power == 0.5 || power == -0.5)
      GuessMeanSquare(facts, sink, facts.syntax.Child(id, PythonFields().left));
  }
  ForEachTorchCall(facts, {"norm", "vector_norm", "matrix_norm"}, [&](const TorchCall& call) {
    if (facts.regions.At(call.node) != nullptr) return;
    if (GuessGradients(facts, sink, call)) return;
    if (!MayTrain(facts, call.node)) return;
    const Value type = facts.dtypes->Of(call.node);
    if (!type.is_fp16() || !facts.dtypes->Of(call.tensor).is_fp16()) {
      if (type.type == Type::kBf16) return;
      const HalfGuess guess = HalfGuess::Widest(facts, call.node);
      const std::string_view text = facts.syntax.Text(facts.syntax.FunctionOf(call.node));
      const bool thought = Holds(text, "finfo") || Holds(text, "value_of_dtype");
      if (!thought && !CallsLayer(facts, call) &&
          facts.names.Argument(call.node, -1, "dtype") == kNoNode && guess.weights() &&
          guess.MayBeHalf(call.tensor))
        MarkGuess(sink.Add(call.node,
                           "If the model is 16-bit as a whole, as this project lets it, this norm "
                           "is: in FP16 its squares are zero below 2.4e-4."));
      return;
    }
    RawFinding& finding =
        sink.Add(call.node,
                 "The norm of an FP16 tensor outside of autocast is stored in FP16: above 65504 "
                 "it is infinite, and its square is from 256 on.");
    NoteAssumed(type, finding);
  });
}

}  // namespace mpnanny::static_check::norm_in_half
