#include <string>
#include <vector>

#include "engines/check/facts/half_models.h"
#include "engines/check/facts/precision_setup.h"
#include "engines/check/rule_support.h"

namespace mpnanny::check::half_params_optimizer {

void Check(const FileFacts& facts, Sink& sink) {
  const auto optimizers = FindHalfOptimizers(facts);
  if (optimizers.empty()) return;
  const std::vector<PrecisionSetup> setups = FindPrecisionSetups(facts);
  for (const HalfOptimizer& found : optimizers) {
    if (found.type != HalfType::kFp16) continue;
    // With a scaler beside weights that were loaded it is fp16-weights-with-scaler.
    if (found.loaded && (TrainsAdapters(facts) || !setups.empty())) continue;
    RawFinding& finding =
        sink.Add(found.call, "The optimizer gets the parameters of " + found.model + ", which " +
                                 std::string(facts.syntax.Text(found.cast).substr(0, 60)) +
                                 " has made FP16.");
    if (found.some) finding.confidence = "medium";
  }
}

}  // namespace mpnanny::check::half_params_optimizer
