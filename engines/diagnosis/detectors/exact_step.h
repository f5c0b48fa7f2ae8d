// When something began that samples show: between two of them the steps may tell.
//
// A pure function.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_DETECTORS_EXACT_STEP_H_
#define MPNANNY_ENGINES_DIAGNOSIS_DETECTORS_EXACT_STEP_H_

#include <cstdint>
#include <optional>

#include "engines/diagnosis/facts/facts.h"

namespace mpnanny::diagnosis {

// The sample at `seen` shows what the one at `clean` did not: where the loss was thrown up between
// them, it began there, and with the sample where it was not.
inline int64_t ExactStep(const Facts& facts, std::optional<int64_t> clean, int64_t seen) {
  if (!clean) return seen;
  const Spike* highest = nullptr;
  for (const Spike& spike : facts.turns.spikes) {
    if (spike.step <= *clean || spike.step > seen) continue;
    if (!highest || spike.value - spike.median > highest->value - highest->median) {
      highest = &spike;
    }
  }
  return highest ? highest->step : seen;
}

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_DETECTORS_EXACT_STEP_H_
