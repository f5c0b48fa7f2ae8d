#include <string>

#include "engines/check/facts/precision_setup.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::qlora_compute_dtype_mismatch {

void Check(const FileFacts& facts, Sink& sink) {
  const auto configs = facts.names.CallsNamed("BitsAndBytesConfig");
  if (configs.empty()) return;
  // One setup, or several that agree.
  HalfType trained = HalfType::kUnknown;
  for (const PrecisionSetup& setup : FindPrecisionSetups(facts)) {
    if (setup.by == PrecisionSetup::By::kScaler) continue;  // which an option may leave unused
    if (trained != HalfType::kUnknown && trained != setup.type) return;
    trained = setup.type;
  }
  if (trained == HalfType::kUnknown) return;
  for (const Call* call : configs) {
    const NodeId given = facts.names.Argument(call->node, -1, "bnb_4bit_compute_dtype");
    if (given == kNoNode) continue;
    HalfType type = facts.regions.ReadHalfType(given);
    const std::string_view text = Literal(facts, given);
    if (text == "float16") type = HalfType::kFp16;
    if (text == "bfloat16") type = HalfType::kBf16;
    if (type == HalfType::kUnknown || type == trained) continue;
    const bool fp16 = type == HalfType::kFp16;
    RawFinding& finding =
        sink.Add(given, std::string("The quantised layers compute in ") + (fp16 ? "FP16" : "BF16") +
                            ", whereas the training runs in " + (fp16 ? "BF16." : "FP16."));
    finding.guess = !fp16;  // a few bits of frozen weights: worth knowing, and it trains
    const Node& node = facts.syntax[given];
    finding.edits.push_back({{node.begin, node.end},
                             !text.empty() ? (fp16 ? "\"bfloat16\"" : "\"float16\"")
                             : fp16        ? "torch.bfloat16"
                                           : "torch.float16"});
  }
}

}  // namespace mpnanny::check::qlora_compute_dtype_mismatch
