#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::softmax_half_no_dtype {

namespace {

// The model may be 16-bit as a whole, and nobody asks for FP32.
void Guess(const FileFacts& facts, Sink& sink, NodeId node, NodeId tensor, std::string_view name) {
  // A function that runs softmax in FP32 on another branch has made its choice.
  const std::string_view text = facts.syntax.Text(facts.syntax.FunctionOf(node));
  if (Holds(text, "dtype=torch.float32") || Holds(text, "upcast")) return;
  const HalfGuess guess(facts, node);
  if (guess.weights() && guess.MayBeHalf(tensor)) {
    MarkGuess(sink.Add(node, "If the model is 16-bit as a whole, as this project lets it, " +
                                 std::string(name) + " returns 16 bits here."));
    return;
  }
  const HalfGuess anywhere = HalfGuess::Anywhere(facts, node);
  if (!anywhere.weights() || !anywhere.MayBeHalf(tensor)) return;
  MarkGuess(sink.Add(node, "If what " + std::string(name) +
                               " is given is 16-bit here, outside of autocast, so is what it "
                               "returns: in FP16 below 3e-8 zero, in BF16 of 8 bits."));
}

// log_probs_from_logits(outputs.logits, labels): what takes log-probabilities, by its name.
void GuessNamed(const FileFacts& facts, Sink& sink) {
  if (!HoldsAny(facts.syntax.text(), {"logits", "lm_head"})) return;
  for (const Call& call : facts.names.calls()) {
    if (!HoldsAny(call.name, {"log_prob", "logprob", "logps", "log_softmax", "logp_", "_logp",
                              "entropy_from", "softmax_"}) ||
        !TorchFunction(call.callee).empty() || facts.regions.At(call.node) != nullptr)
      continue;
    for (const NodeId argument : facts.names.Arguments(call.node)) {
      const std::string_view text = facts.syntax.Text(argument);
      if (!Holds(text, "logits") || text.size() > 120) continue;
      const HalfGuess anywhere = HalfGuess::Anywhere(facts, call.node);
      if (!anywhere.any() || !anywhere.MayBeHalf(argument)) continue;
      MarkGuess(sink.Add(call.node,
                         "The logits have the type of the model: if that is 16-bit and nobody "
                         "converts them inside, these log-probabilities have 8 or 11 bits."));
      break;
    }
  }
}

// logits = logits.reshape(-1, n).float(): one of the assignments that follow converts.
bool ConvertsLater(const FileFacts& facts, NodeId assignment, NodeId function) {
  const Fields& f = PythonFields();
  for (const NodeId id : facts.assignments) {
    if (id <= assignment || id >= facts.syntax[function].after) continue;
    const std::string_view value = facts.syntax.Text(facts.syntax.Child(id, f.right));
    if (value.size() < 300 && Holds(facts.syntax.Text(facts.syntax.Child(id, f.left)), "logits") &&
        Holds(value, "logits") && HoldsAny(value, {".float()", "float32", ".double()"}))
      return true;
  }
  return false;
}

// logits = model(x).logits: where probabilities are taken of them further down.
void GuessLogits(const FileFacts& facts, Sink& sink) {
  if (!Holds(facts.syntax.text(), "logits")) return;
  const Fields& f = PythonFields();
  for (const NodeId id : facts.assignments) {
    const NodeId target = facts.syntax.Child(id, f.left);
    const NodeId value = facts.syntax.Unwrap(facts.syntax.Child(id, f.right));
    if (!facts.syntax.Is(target, Kind::kIdentifier) ||
        !Holds(facts.syntax.Text(target), "logits") || facts.regions.At(id) != nullptr)
      continue;
    const std::string_view made = facts.syntax.Text(value);
    if (made.size() > 300 || !Holds(made, "(") ||
        !HoldsAny(made, {"model", "actor", "policy", "forward(", "lm_head", "head(", "net(",
                         "F.linear", "output("}) ||
        HoldsAny(made, {"float", "dtype"}))
      continue;
    const NodeId function = facts.syntax.FunctionOf(id);
    const std::string_view rest =
        std::string_view(facts.syntax.text())
            .substr(facts.syntax[id].end, facts.syntax[function].end - facts.syntax[id].end);
    // What is converted afterwards, and what is only compared, needs nothing.
    const bool returned = HoldsAny(made, {"lm_head", "F.linear", "head(", "output("}) &&
                          Holds(rest, "return") && Holds(rest, "logits");
    if ((!returned && !HoldsAny(rest, {"softmax", "log_prob", "logprob", "logps", "logsumexp",
                                       "entropy", "_loss(", "loss_fn", "kl_"})) ||
        HoldsAny(rest, {"logits.float()", "logits.to(", "float32", ".double()"}) ||
        ConvertsLater(facts, id, function))
      continue;
    const HalfGuess anywhere = HalfGuess::Anywhere(facts, id);
    if (!anywhere.any()) continue;
    MarkGuess(
        sink.Add(id,
                 "The logits keep the type of the model: if that is 16-bit, the probabilities "
                 "and losses that are taken of them outside of autocast have 8 or 11 bits."));
  }
}

// self.softmax(x), criterion(x, y) of an object of torch.nn.
void GuessLayers(const FileFacts& facts, Sink& sink) {
  constexpr std::string_view kLayers[] = {"torch.nn.Softmax", "torch.nn.LogSoftmax",
                                          "torch.nn.CrossEntropyLoss"};
  for (const Call& call : facts.names.calls()) {
    const NodeId made = !call.callee.empty()
                            ? kNoNode
                            : facts.bindings.ValueOf(facts.syntax.Unwrap(
                                  facts.syntax.Child(call.node, PythonFields().function)));
    const Call* layer = made == call.node ? nullptr : facts.names.CallAt(made);
    if (layer == nullptr || facts.regions.At(call.node) != nullptr) continue;
    for (const std::string_view name : kLayers) {
      if (layer->callee == name)
        Guess(facts, sink, call.node, facts.names.Argument(call.node, 0, "input"),
              name.substr(name.rfind('.') + 1));
    }
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.HasHalfChoice()) return;
  ForEachTorchCall(facts, {"cross_entropy"}, [&](const TorchCall& call) {
    if (facts.regions.At(call.node) == nullptr && !call.is_method)
      Guess(facts, sink, call.node, call.tensor, call.name);
  });
  GuessLayers(facts, sink);
  GuessNamed(facts, sink);
  GuessLogits(facts, sink);
  ForEachTorchCall(facts, {"logsumexp", "softmin", "gumbel_softmax"}, [&](const TorchCall& call) {
    if (facts.regions.At(call.node) == nullptr)
      Guess(facts, sink, call.node, call.tensor, call.name);
  });
  ForEachTorchCall(facts, {"softmax", "log_softmax"}, [&](const TorchCall& call) {
    // Inside a region autocast decides, or it is off: autocast-disabled-no-float.
    if (facts.regions.At(call.node) != nullptr || !MayTrain(facts, call.node)) return;
    if (facts.names.Argument(call.node, -1, "dtype") != kNoNode) return;
    const Value type = facts.dtypes->Of(call.node);
    if (!type.is_16bit() || !facts.dtypes->Of(call.tensor).is_16bit()) {
      if (!CallsLayer(facts, call)) Guess(facts, sink, call.node, call.tensor, call.name);
      return;
    }
    RawFinding& finding = sink.Add(call.node, std::string(call.name) +
                                                  " of a 16-bit tensor outside of autocast gives " +
                                                  (type.is_fp16() ? "FP16." : "16 bits."));
    // In BF16 there is no underflow to speak of, and a benchmark's yardstick trains nothing.
    if (!type.is_fp16() || facts.path.find("bench") != std::string::npos) MarkGuess(finding);
    NoteAssumed(type, finding);
  });
}

}  // namespace mpnanny::static_check::softmax_half_no_dtype
