#include <optional>
#include <string>

#include "engines/check/facts/half_models.h"
#include "engines/check/rule_support.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check::bf16_params_optimizer {

// Above this rate most updates of Adam are larger than half an ulp of a usual weight (0.02).
static constexpr double kLargestLostRate = 1e-4;

// True if something in the file keeps FP32 weights beside the BF16 ones, or trains others.
static bool HasMasterWeights(const FileFacts& facts) {
  const std::string& text = facts.syntax.text();
  if (HoldsAny(text, {"deepspeed", "DeepSpeed", "FullyShardedDataParallel", "fully_shard", "master",
                      "stochastic_round", "Kahan", "kahan"}))
    return true;
  return TrainsAdapters(facts);
}

void Check(const FileFacts& facts, Sink& sink) {
  for (const HalfOptimizer& found : FindHalfOptimizers(facts)) {
    if (found.type != HalfType::kBf16 || found.some) continue;
    const NodeId given = facts.names.Argument(found.call, 1, "lr");
    const std::optional<double> rate =
        given == kNoNode ? std::nullopt : facts.bindings.Number(given);
    if ((rate && *rate > kLargestLostRate) || HasMasterWeights(facts)) continue;
    RawFinding& finding = sink.Add(
        found.call, "The optimizer updates the weights of " + found.model +
                        ", which are BF16, and there is no FP32 copy of them" +
                        (rate ? ": at lr " + ShowNumber(*rate) + " most updates are lost." : "."));
    if (!rate) finding.confidence = "medium";
  }
}

}  // namespace mpnanny::check::bf16_params_optimizer
