#include "tools/diagnose_run/detectors/detector.h"

namespace mpnanny::diagnose_run {

bool InNarrowRange(const Facts& facts) {
  const auto narrow = [](const std::string& format) {
    return format == "float16" || format == "fp16" || format.starts_with("float8") ||
           format == "fp8";
  };
  // The tensor's own format knows best; FP32 inside an FP16 run is what autocast keeps on purpose.
  if (facts.trend && !facts.trend->dtype.empty()) {
    return narrow(facts.trend->dtype) || (facts.onset && facts.onset->is_overflow);
  }
  return narrow(facts.precision);
}

std::vector<Claim> RunDetectors(const Facts& facts) {
  constexpr Detector kAll[] = {DetectForwardOverflow, DetectBirthPlace,   DetectGradientOverflow,
                               DetectLossScale,       DetectSkippedSteps, DetectVanishing,
                               DetectDivergence,      DetectWideRange};
  std::vector<Claim> claims;
  for (const Detector detect : kAll) {
    if (auto claim = detect(facts)) claims.push_back(*std::move(claim));
  }
  return claims;
}

}  // namespace mpnanny::diagnose_run
