#include <string>
#include <string_view>

#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::grad_compress_fp16 {

void Check(const FileFacts& facts, Sink& sink) {
  for (const Call* call : facts.names.CallsNamed("register_comm_hook")) {
    const NodeId hook = facts.names.Argument(call->node, 1, "hook");
    if (hook == kNoNode) continue;
    const std::string_view text = facts.syntax.Text(hook);
    const bool bf16 = Holds(text, "bf16_compress");
    if (!bf16 && !Holds(text, "fp16_compress")) continue;
    sink.Add(call->node, std::string("Gradients are averaged over the workers in ") +
                             (bf16 ? "BF16, which has 8 bits." : "FP16."));
  }
  for (const std::string_view name : {"all_reduce", "reduce", "reduce_scatter_tensor"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (!call->callee.starts_with("torch.distributed.")) continue;
      const NodeId tensor =
          facts.names.Argument(call->node, name == "reduce_scatter_tensor" ? 1 : 0,
                               name == "reduce_scatter_tensor" ? "input" : "tensor");
      if (tensor == kNoNode || !facts.dtypes->Of(tensor).is_16bit()) continue;
      const NodeId made = facts.bindings.ValueOf(tensor);
      const bool gradient =
          facts.syntax.Text(tensor).find("grad") != std::string_view::npos ||
          (made != kNoNode && facts.syntax.Text(made).find("grad") != std::string_view::npos);
      if (gradient) sink.Add(call->node, "Gradients are summed over the workers in 16 bits.");
    }
  }
}

}  // namespace mpnanny::check::grad_compress_fp16
