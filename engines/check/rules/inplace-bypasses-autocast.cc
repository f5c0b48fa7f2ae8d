#include "engines/check/facts/torch_calls.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::inplace_bypasses_autocast {

void Check(const FileFacts& facts, Sink& sink) {
  if (!facts.project.sixteen_bit) return;
  const auto report = [&](const TorchCall& call, std::string_view function, NodeId tensor) {
    Policy policy;
    if (!facts.dtypes->PolicyAt(call.node, &policy) || policy.device == Device::kCpu) return;
    if (facts.ops.PolicyOf(Device::kCuda, function) != CastPolicy::kFp32) return;
    const Value type = facts.dtypes->Of(tensor);
    if (!type.is_16bit()) return;
    RawFinding& finding =
        sink.Add(call.node, std::string(call.name) +
                                " writes into a 16-bit tensor: autocast, which "
                                "runs " +
                                std::string(function) + " in FP32, does not see it.");
    NoteAssumed(type, finding);
  };
  ForEachTorchCall(facts,
                   {"exp_", "log_", "log2_", "log10_", "log1p_", "pow_", "rsqrt_", "reciprocal_",
                    "cumsum_", "cumprod_", "expm1_", "acos_", "asin_", "cosh_", "sinh_", "tan_"},
                   [&](const TorchCall& call) {
                     report(call, call.name.substr(0, call.name.size() - 1), call.tensor);
                   });
  ForEachTorchCall(facts,
                   {"exp", "log", "pow", "softmax", "sum", "cumsum", "norm", "rsqrt", "prod"},
                   [&](const TorchCall& call) {
                     const NodeId out = facts.names.Argument(call.node, -1, "out");
                     if (out != kNoNode && !call.is_method) report(call, call.name, out);
                   });
}

}  // namespace mpnanny::check::inplace_bypasses_autocast
