#include "engines/check/facts/precision_setup.h"

#include <string>
#include <string_view>

#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

// TrainingArguments and its kin: Seq2SeqTrainingArguments, SFTConfig, DPOConfig …
bool IsArguments(std::string_view name) {
  return name.ends_with("TrainingArguments") || name == "SFTConfig" || name == "DPOConfig" ||
         name == "GRPOConfig" || name == "PPOConfig" || name == "KTOConfig" ||
         name == "ORPOConfig" || name == "RewardConfig" || name == "CPOConfig";
}

}  // namespace

std::string_view Literal(const FileFacts& facts, NodeId expression) {
  const NodeId value = facts.bindings.ValueOf(expression);
  if (!facts.syntax.Is(value, Kind::kString)) return {};
  std::string_view text = facts.syntax.Text(value);
  while (!text.empty() && text.front() != '"' && text.front() != '\'') text.remove_prefix(1);
  return text.size() < 2 ? std::string_view{} : text.substr(1, text.size() - 2);
}

std::vector<PrecisionSetup> FindPrecisionSetups(const FileFacts& facts) {
  std::vector<PrecisionSetup> found;
  using By = PrecisionSetup::By;
  for (const ScalerMade& made : facts.scalers.made()) {
    if (!made.enabled_false) found.push_back({By::kScaler, made.call, HalfType::kFp16});
  }
  const std::string& text = facts.syntax.text();
  if (!Holds(text, "fp16") && !Holds(text, "bf16") && !Holds(text, "precision")) return found;
  for (const Call& one : facts.names.calls()) {
    const NodeId call = one.node;
    const std::string_view name = one.name;
    if (IsArguments(name)) {
      const NodeId fp16 = facts.bindings.ValueOf(facts.names.Argument(call, -1, "fp16"));
      const NodeId bf16 = facts.bindings.ValueOf(facts.names.Argument(call, -1, "bf16"));
      if (facts.syntax.Is(fp16, Kind::kTrue))
        found.push_back({By::kArguments, call, HalfType::kFp16});
      if (facts.syntax.Is(bf16, Kind::kTrue))
        found.push_back({By::kArguments, call, HalfType::kBf16});
    } else if (name == "Accelerator") {
      const std::string_view value =
          Literal(facts, facts.names.Argument(call, -1, "mixed_precision"));
      if (value == "fp16") found.push_back({By::kAccelerator, call, HalfType::kFp16});
      if (value == "bf16") found.push_back({By::kAccelerator, call, HalfType::kBf16});
    } else if (name == "Trainer" || name == "Fabric") {
      const NodeId precision = facts.names.Argument(call, -1, "precision");
      const std::string_view value = Literal(facts, precision);
      if (value == "16-mixed" || value == "16" || facts.bindings.Number(precision) == 16)
        found.push_back({By::kLightning, call, HalfType::kFp16});
      if (value == "bf16-mixed" || value == "bf16")
        found.push_back({By::kLightning, call, HalfType::kBf16});
    }
  }
  return found;
}

}  // namespace mpnanny::check
