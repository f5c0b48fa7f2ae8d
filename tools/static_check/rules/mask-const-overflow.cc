#include <cmath>

#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::mask_const_overflow {

void Check(const FileFacts& facts, Sink& sink) {
  ForEachCall(facts, [&](NodeId call) {
    const std::string callee = facts.names.Callee(call);
    const std::string_view function = TorchFunction(callee);
    const std::string_view name = callee.empty() ? facts.names.Method(call) : function;
    const int shift =
        callee.empty() ? 0 : 1;  // the tensor is the first argument of the function form
    NodeId constant = kNoNode;
    NodeId tensor =
        callee.empty() ? facts.names.Receiver(call) : facts.names.Argument(call, 0, "input");
    if (name == "masked_fill" || name == "masked_fill_") {
      constant = facts.names.Argument(call, 1 + shift, "value");
    } else if (callee.empty() && name == "fill_") {
      constant = facts.names.Argument(call, 0, "value");
    } else if (!callee.empty() && name == "full_like") {
      constant = facts.names.Argument(call, 1, "fill_value");
    }
    if (constant == kNoNode) return;
    const auto value = facts.bindings.Number(constant);
    if (!value || !std::isfinite(*value) || std::fabs(*value) <= kFp16Max) return;
    const Value type = facts.dtypes->Of(tensor);
    if (!type.is_fp16()) return;
    RawFinding& finding = sink.Add(
        call, ShowNumber(*value) + " does not fit into the FP16 tensor it is written to: " +
                  std::string(name) + " raises RuntimeError.");
    const std::string key = facts.names.Key(tensor);
    if (*value < 0 && !key.empty() && facts.names.Resolve(tensor).empty() &&
        facts.names.ImportsModule("torch")) {
      const Node& node = facts.syntax[constant];
      finding.edits.push_back({{node.begin, node.end}, "torch.finfo(" + key + ".dtype).min"});
    }
    NoteAssumed(type, finding);
  });
}

}  // namespace mpnanny::static_check::mask_const_overflow
