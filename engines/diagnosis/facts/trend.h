// Precursors: how the producer's values went over the sampled steps before the first bad one.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_TREND_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_TREND_H_

#include <optional>
#include <string>

#include "engines/diagnosis/facts/facts.h"

namespace mpnanny::diagnosis {

// Largest finite value of a format by torch's dtype name or by the monitor's word ("float16",
// "fp16"); 0 for others.
double LargestFinite(const std::string& format);

// The trend of the onset's layer over the profile's samples; without a layer, of the activation
// that came nearest to the format's limit in the last of them. nullopt where none was sampled.
std::optional<Trend> FindTrend(const Facts& facts);

// "absmax of blocks.2.ffn.wo: 12.3 (step 0) → 5.82e+04 (step 120), about x1.07 a step; float16 ends
// at 65504".
runs::Sentence TrendText(const Trend& trend);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_TREND_H_
