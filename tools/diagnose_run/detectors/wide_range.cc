#include "tools/diagnose_run/detectors/detector.h"
#include "tools/runs/show.h"

namespace mpnanny::diagnose_run {

void DetectWideRange(const Facts& facts, std::vector<Claim>& claims) {
  if (!facts.onset || facts.onset->phase != "forward" || InNarrowRange(facts)) return;
  const std::string format =
      facts.trend && !facts.trend->dtype.empty() ? facts.trend->dtype : facts.precision;
  if (format != "float32" && format != "bfloat16" && format != "fp32" && format != "bf16") {
    return;
  }
  Claim claim;
  claim.id = "wide-range";
  claim.sentence = "The first bad tensor is held in " + format +
                   ", which reaches 3.4e38: it is no overflow of FP16's range";
  if (facts.trend && facts.trend->absmax.size() > 1) {
    claim.sentence += " (" + runs::Name(facts.trend->layer) + " had absmax " +
                      runs::Number(facts.trend->absmax.back().second) + " at step " +
                      std::to_string(facts.trend->absmax.back().first) + ")";
  }
  claim.sentence += ".";
  claim.strength = 0.8;
  claim.opposes = {facts.precision == "bf16" ? "!precision:bf16" : "!precision:fp32"};
  claims.push_back(std::move(claim));
  return;
}

}  // namespace mpnanny::diagnose_run
