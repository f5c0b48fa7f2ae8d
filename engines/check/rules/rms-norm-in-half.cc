#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::rms_norm_in_half {
namespace {

// What a root is taken of: the mean in rsqrt(mean + eps), (mean + eps) ** -0.5, mean.sqrt().
std::optional<TorchCall> MeanUnder(const FileFacts& facts, NodeId expression) {
  NodeId id = Traced(facts, expression);
  for (int depth = 0; depth < 3 && OperatorOf(facts, id) == "+"; ++depth)
    id = Traced(facts, facts.syntax.Child(id, PythonFields().left));
  return TracedCall(facts, id, {"mean", "sum"});
}

void Report(const FileFacts& facts, Sink& sink, NodeId radicand) {
  const auto mean = MeanUnder(facts, radicand);
  if (!mean) return;
  const NodeId base = SquareOf(facts, mean->tensor);
  const Value type = facts.dtypes->Of(mean->tensor);
  if (base == kNoNode || !type.is_fp16()) return;
  RawFinding& finding =
      sink.Add(mean->node, "The squares of " + std::string(facts.syntax.Text(base).substr(0, 40)) +
                               " are FP16: they are infinite from 256 on and zero below 2.4e-4.");
  NoteAssumed(type, finding);
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.sixteen_bit) return;
  ForEachTorchCall(facts, {"rsqrt", "sqrt", "rsqrt_", "sqrt_"},
                   [&](const TorchCall& call) { Report(facts, sink, call.tensor); });
  for (const NodeId id : facts.binaries) {
    if (OperatorOf(facts, id) != "**") continue;
    const auto power = facts.bindings.Number(facts.syntax.Child(id, PythonFields().right));
    if (power == 0.5 || power == -0.5)
      Report(facts, sink, facts.syntax.Child(id, PythonFields().left));
  }
}

}  // namespace mpnanny::check::rms_norm_in_half
