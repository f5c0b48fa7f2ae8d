#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::exp_overflow_half {
namespace {

constexpr double kLogOfFp16Max = 11.09;

void Report(const FileFacts& facts, Sink& sink, NodeId node, NodeId exponent, Value type,
            std::string_view how) {
  if (exponent == kNoNode || IsBoundedAbove(facts, exponent, kLogOfFp16Max)) return;
  if (!MayTrain(facts, node)) return;
  RawFinding& finding = sink.Add(
      node, "The result is " + std::string(how) +
                " FP16: it is infinite for arguments above 11.09, and nothing limits them.");
  NoteAssumed(type, finding);
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.sixteen_bit) return;
  ForEachTorchCall(facts, {"exp", "expm1", "sinh", "cosh", "exp_"}, [&](const TorchCall& call) {
    if (call.is_method && !facts.names.Arguments(call.node).empty()) return;
    // Under autocast the in-place form is inplace-bypasses-autocast's.
    if (Policy policy; call.name == "exp_" && facts.dtypes->PolicyAt(call.node, &policy) &&
                       facts.dtypes->Of(call.tensor).is_16bit())
      return;
    const Value type = facts.dtypes->Of(call.node);
    if (type.is_fp16()) Report(facts, sink, call.node, call.tensor, type, "computed in");
  });
  // exp in FP32, as autocast does it, and then stored in half.
  ForEachTorchCall(facts, {"half", "to", "type", "type_as"}, [&](const TorchCall& cast) {
    const Value type = facts.dtypes->Of(cast.node);
    if (!cast.is_method || !type.is_fp16()) return;
    const auto exponential = TracedCall(facts, cast.tensor, {"exp", "expm1"});
    if (!exponential || facts.dtypes->Of(exponential->node).is_fp16()) return;
    // .to(q.dtype) of something else: what the exponent is, is not known.
    const std::string_view exponent = facts.syntax.Text(exponential->tensor);
    for (const NodeId argument : facts.names.Arguments(cast.node)) {
      const NodeId like = facts.syntax.Is(argument, Kind::kAttribute)
                              ? facts.syntax.Child(argument, PythonFields().object)
                              : argument;
      const bool named = facts.regions.ReadHalfType(argument) != HalfType::kUnknown;
      if (!named && exponent.find(facts.syntax.Text(like)) == std::string_view::npos) return;
    }
    Report(facts, sink, cast.node, exponential->tensor, type, "stored in");
  });
}

}  // namespace mpnanny::check::exp_overflow_half
