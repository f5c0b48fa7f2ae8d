#include <string>
#include <string_view>

#include "engines/check/rule_support.h"

namespace mpnanny::check::fsdp_half_reduce {

void Check(const FileFacts& facts, Sink& sink) {
  for (const std::string_view name : {"MixedPrecision", "MixedPrecisionPolicy"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (!call->callee.starts_with("torch.distributed.")) continue;
      const NodeId reduce = facts.names.Argument(call->node, 1, "reduce_dtype");
      const HalfType type =
          reduce == kNoNode ? HalfType::kUnknown : facts.regions.ReadHalfType(reduce);
      if (type == HalfType::kUnknown) continue;
      sink.Add(call->node, std::string("FSDP averages gradients over the ranks in ") +
                               (type == HalfType::kBf16 ? "BF16." : "FP16."));
    }
  }
}

}  // namespace mpnanny::check::fsdp_half_reduce
