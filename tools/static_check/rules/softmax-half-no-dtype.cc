#include "tools/static_check/half_guess.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/text_search.h"
#include "tools/static_check/torch_calls.h"

namespace mpnanny::static_check::softmax_half_no_dtype {

namespace {

// The model may be 16-bit as a whole, and nobody asks for FP32.
void Guess(const FileFacts& facts, Sink& sink, NodeId node, NodeId tensor, std::string_view name) {
  // A function that runs softmax in FP32 on another branch has made its choice.
  const std::string_view text = facts.syntax.Text(facts.syntax.FunctionOf(node));
  if (Holds(text, "dtype=torch.float32") || Holds(text, "upcast")) return;
  const HalfGuess guess(facts, node);
  if (!guess.weights() || !guess.MayBeHalf(tensor)) return;
  MarkGuess(sink.Add(node, "If the model is 16-bit as a whole, as this project lets it, " +
                               std::string(name) + " returns 16 bits here."));
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
  if (!facts.project.sixteen_bit) return;
  ForEachTorchCall(facts, {"cross_entropy"}, [&](const TorchCall& call) {
    if (facts.regions.At(call.node) == nullptr && !call.is_method)
      Guess(facts, sink, call.node, call.tensor, call.name);
  });
  GuessLayers(facts, sink);
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
