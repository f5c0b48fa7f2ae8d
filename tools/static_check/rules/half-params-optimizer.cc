#include "tools/static_check/half_models.h"
#include "tools/static_check/rule_support.h"

namespace mpnanny::static_check::half_params_optimizer {

void Check(const FileFacts& facts, Sink& sink) {
  for (const HalfOptimizer& found : FindHalfOptimizers(facts)) {
    RawFinding& finding =
        sink.Add(found.call, "The optimizer gets the parameters of " + found.model + ", which " +
                                 std::string(facts.syntax.Text(found.cast).substr(0, 60)) +
                                 " has made FP16.");
    if (found.some) finding.confidence = "medium";
  }
}

}  // namespace mpnanny::static_check::half_params_optimizer
