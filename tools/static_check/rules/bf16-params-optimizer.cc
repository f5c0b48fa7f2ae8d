#include <optional>
#include <string>

#include "tools/static_check/half_choices.h"
#include "tools/static_check/half_guess.h"
#include "tools/static_check/half_models.h"
#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::bf16_params_optimizer {

// Above this rate most updates of Adam are larger than half an ulp of a usual weight (0.02).
static constexpr double kLargestLostRate = 1e-4;

// True if something in the file keeps FP32 weights beside the BF16 ones, or trains others.
static bool HasMasterWeights(const FileFacts& facts) {
  const std::string& text = facts.syntax.text();
  for (const char* word : {"deepspeed", "DeepSpeed", "FullyShardedDataParallel", "fully_shard",
                           "master", "stochastic_round", "Kahan", "kahan"}) {
    if (text.find(word) != std::string::npos) return true;
  }
  return TrainsAdapters(facts);
}

void Check(const FileFacts& facts, Sink& sink) {
  for (const NodeId precision : DefaultPrecisions(facts, "bf16-true"))
    MarkGuess(sink.Add(precision,
                       "With this default the optimizer updates BF16 weights without a copy in "
                       "FP32."));
  for (const TrainedHalf& load : FindTrainedLoads(facts)) {
    if (load.type.bf16)
      MarkGuess(sink.Add(load.node, "Where the type is BF16, so are the weights of " + load.model +
                                        " that are trained: updates below 2^-9 of a weight are "
                                        "lost."));
  }
  for (const TrainedHalf& cast : FindTrainedCasts(facts)) {
    if (cast.type.bf16)
      MarkGuess(sink.Add(cast.node, "The weights of " + cast.model +
                                        " are BF16 when the optimizer gets them: updates below "
                                        "2^-9 of a weight are lost."));
  }
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

}  // namespace mpnanny::static_check::bf16_params_optimizer
