#include <string>
#include <string_view>

#include "base/text.h"
#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::fsdp_half_reduce {
namespace {

// What the text says of a type: nothing is given, FP32, 16 bits, or something that is decided when
// the program runs.
enum class Says { kNothing, kFp32, kHalf, kOpen };

Says TypeOf(const FileFacts& facts, NodeId type) {
  if (type == kNoNode || facts.syntax.Is(type, Kind::kNone)) return Says::kNothing;
  if (facts.regions.ReadHalfType(type) != HalfType::kUnknown) return Says::kHalf;
  const NodeId value = facts.bindings.ValueOf(type);
  const std::string text = LowerCase(facts.syntax.Text(value == kNoNode ? type : value)) + " " +
                           LowerCase(facts.syntax.Text(type));
  const bool half = HoldsAny(text, {"bf16", "bfloat16", "fp16", "float16", "half"});
  if (!half && HoldsAny(text, {"float32", "fp32", "torch.float", "reduce", "grad"}))
    return Says::kFp32;
  return Says::kOpen;
}

// Where nothing is said of the reduction it runs in the type of the parameters; where a name
// decides, in whatever that is.
void Guess(const FileFacts& facts, const Call& call, Sink& sink) {
  const Says param = TypeOf(facts, facts.names.Argument(call.node, 0, "param_dtype"));
  const Says reduce = TypeOf(facts, facts.names.Argument(call.node, 1, "reduce_dtype"));
  if (HasSplat(facts, call.node)) return;
  if (reduce == Says::kNothing && (param == Says::kHalf || param == Says::kOpen)) {
    MarkGuess(sink.Add(call.node,
                       "Without reduce_dtype gradients are averaged over the ranks in "
                       "param_dtype, which is or may be 16-bit."));
  } else if (reduce == Says::kOpen) {
    MarkGuess(sink.Add(call.node,
                       "reduce_dtype follows a choice that may be 16-bit: gradients are then "
                       "averaged over the ranks in that."));
  }
}

}  // namespace

void Check(const FileFacts& facts, Sink& sink) {
  for (const std::string_view name : {"MixedPrecision", "MixedPrecisionPolicy"}) {
    for (const Call* call : facts.names.CallsNamed(name)) {
      if (!call->callee.starts_with("torch.distributed.")) continue;
      const NodeId reduce = facts.names.Argument(call->node, 1, "reduce_dtype");
      const HalfType type =
          reduce == kNoNode ? HalfType::kUnknown : facts.regions.ReadHalfType(reduce);
      if (type == HalfType::kUnknown) {
        Guess(facts, *call, sink);
        continue;
      }
      sink.Add(call->node, std::string("FSDP averages gradients over the ranks in ") +
                               (type == HalfType::kBf16 ? "BF16." : "FP16."));
    }
  }
}

}  // namespace mpnanny::static_check::fsdp_half_reduce
