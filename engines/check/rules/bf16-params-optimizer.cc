#include <optional>
#include <string>

#include "engines/check/facts/half_models.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::bf16_params_optimizer {

// A step of Adam is about as large as the rate. A usual weight (0.02) lies between 2^-6 and 2^-5,
// where half an ulp of BF16 is 2^-14: below it, weights of that size and above stay what they are.
static constexpr double kLostRate = 0x1p-14;
// Above this rate updates are larger than half an ulp of most weights.
static constexpr double kLargestLostRate = 1e-4;

// True for optimizers whose step has the size of the rate, whatever the gradients.
static bool StepsByRate(std::string_view callee) {
  for (const char* name : {"Adam", "AdamW", "NAdam", "RAdam", "Adamax"}) {
    if (callee == std::string("torch.optim.") + name) return true;
  }
  return false;
}

// True if something in the project keeps FP32 weights beside the BF16 ones, or trains others.
static bool HasMasterWeights(const FileFacts& facts) {
  return facts.project.deepspeed || facts.project.fsdp || TrainsAdapters(facts);
}

void Check(const FileFacts& facts, Sink& sink) {
  for (const HalfOptimizer& found : FindHalfOptimizers(facts)) {
    if (found.type != HalfType::kBf16) continue;
    const NodeId given = facts.names.Argument(found.call, 1, "lr");
    const std::optional<double> rate =
        given == kNoNode ? std::nullopt : facts.bindings.Number(given);
    const bool lost = rate && *rate < kLostRate && StepsByRate(facts.names.Callee(found.call)) &&
                      IsPlainlyTrained(facts, found);
    if (found.some && !lost) continue;
    if ((rate && *rate > kLargestLostRate) || HasMasterWeights(facts)) continue;
    RawFinding& finding = sink.Add(
        found.call, "The optimizer updates the weights of " + found.model +
                        ", which are BF16, and there is no FP32 copy of them" +
                        (rate ? ": at lr " + ShowNumber(*rate) +
                                    " a step is less than half an ulp of most weights, which stay "
                                    "what they are."
                              : "."));
    if (!rate) finding.confidence = "medium";
    if (!lost) finding.form = "some-updates";
  }
}

}  // namespace mpnanny::check::bf16_params_optimizer
