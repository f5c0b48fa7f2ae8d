#include <string>
#include <string_view>

#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::default_dtype_half {

void Check(const FileFacts& facts, Sink& sink) {
  // Code that only runs a model may well build it in 16 bits.
  const std::string& text = facts.syntax.text();
  if (!Holds(text, "set_default_") || !Holds(text, ".backward(")) return;
  for (const std::string_view name : {"set_default_dtype", "set_default_tensor_type"}) {
    const auto calls = facts.names.CallsNamed(name);
    for (const Call* call : calls) {
      const NodeId type =
          facts.names.Argument(call->node, 0, name == "set_default_dtype" ? "d" : "t");
      if (type == kNoNode || !call->callee.starts_with("torch.")) continue;
      if (facts.regions.ReadHalfType(type) == HalfType::kUnknown &&
          facts.syntax.Text(type).find("HalfTensor") == std::string_view::npos &&
          facts.syntax.Text(type).find("BFloat16Tensor") == std::string_view::npos)
        continue;
      // Mostly it is set for the time in which a model is made, and set back.
      bool set_back = false;
      for (const Call* other : calls) {
        set_back = set_back ||
                   (other->node > call->node &&
                    facts.syntax.FunctionOf(other->node) == facts.syntax.FunctionOf(call->node));
      }
      // An option chose it: whoever takes that option means it.
      if (!set_back)
        sink.Add(call->node).guess = facts.syntax.Enclosing(call->node, Kind::kIf) != kNoNode;
    }
  }
}

}  // namespace mpnanny::check::default_dtype_half
