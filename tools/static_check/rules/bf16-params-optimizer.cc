#include <optional>
#include <string>

#include "tools/static_check/facts/half_choices.h"
#include "tools/static_check/facts/half_guess.h"
#include "tools/static_check/facts/half_models.h"
#include "tools/static_check/facts/torch_calls.h"
#include "tools/static_check/rule_support.h"
#include "tools/static_check/syntax/text_search.h"

namespace mpnanny::static_check::bf16_params_optimizer {

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

// from_pretrained(…, torch_dtype=torch.bfloat16), model.to(torch.bfloat16) in a file that trains,
// in a function that makes no optimizer itself.
static void GuessWeights(const FileFacts& facts, Sink& sink) {
  const std::string_view text = facts.syntax.text();
  if (!Holds(text, "bfloat16") || !HoldsAny(text, {"backward(", "Trainer(", "optim."}) ||
      HasMasterWeights(facts))
    return;
  for (const Call& call : facts.names.calls()) {
    HalfType type = HalfType::kUnknown;
    if (call.name == "from_pretrained" || call.name == "from_config") {
      NodeId dtype = facts.names.Argument(call.node, -1, "torch_dtype");
      if (dtype == kNoNode) dtype = facts.names.Argument(call.node, -1, "dtype");
      if (dtype != kNoNode) type = facts.regions.ReadHalfType(dtype);
    } else if (call.receiver != kNoNode && (call.name == "to" || call.name == "bfloat16") &&
               HoldsAny(facts.syntax.Text(call.receiver).substr(0, 40),
                        {"model", "net", "transformer", "policy"})) {
      if (call.name == "bfloat16") type = HalfType::kBf16;
      for (const NodeId argument : facts.names.Arguments(call.node)) {
        if (type == HalfType::kUnknown) type = facts.regions.ReadHalfType(argument);
      }
    }
    const NodeId function = facts.syntax.FunctionOf(call.node);
    // An optimizer in the same function is looked at by itself.
    if (type != HalfType::kBf16 || !MayTrain(facts, call.node) || function == 0 ||
        Holds(facts.syntax.Text(function), "optim") ||
        HoldsAny(facts.syntax.Text(facts.syntax.StatementOf(call.node)),
                 {"ref", "teacher", "vae", "text_encoder", "okenizer", ".eval()"}))
      continue;
    MarkGuess(sink.Add(call.node,
                       "BF16 weights: if they are trained as they are, an update below 2^-9 of a "
                       "weight is lost. Load them in FP32 and use autocast, or let the optimizer "
                       "keep FP32 copies."));
  }
}

void Check(const FileFacts& facts, Sink& sink) {
  GuessWeights(facts, sink);
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
  for (const HalfOptimizer& late : FindLateCasts(facts)) {
    if (late.type == HalfType::kBf16)
      MarkGuess(sink.Add(late.cast, "The optimizer above holds the weights of " + late.model +
                                        ", which this makes BF16 in place: updates below 2^-9 of "
                                        "a weight are lost from here on."));
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
