// Where a fault began: as shadow steps measured it, or, where nothing is not finite and nothing was
// measured, as the record shows it.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_CAUSES_FAULT_PLACE_H_
#define MPNANNY_ENGINES_DIAGNOSIS_CAUSES_FAULT_PLACE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engines/diagnosis/cases/rank.h"
#include "engines/diagnosis/detectors/detector.h"
#include "engines/diagnosis/facts/facts.h"

namespace mpnanny::diagnosis {

// Whether `step` is the first that shadow steps compared and others came before it: a lasting fault
// has no known beginning then.
bool IsFirstCompared(const Facts& facts, int64_t step);

// Of the leading mechanism (causes.h), which there must be.
Onset PlaceOfMeasured(const Facts& facts);

// Adds what was measured of the first value that is not finite: operator, line, and the step where
// shadow steps saw it earlier.
void JoinMeasured(const Facts& facts, Onset& onset);

// By the sign that `best` stands on (nullptr: there is none), else by the first claim that names a
// place.
std::optional<Onset> PlaceOfFault(const Facts& facts, const std::vector<Claim>& claims,
                                  const cases::Case* best);

// The first step that a scaler skipped for no reason of its own, and the layer whose gradient was
// nearest to FP16's end before.
std::optional<Onset> PlaceOfSkips(const Facts& facts);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_CAUSES_FAULT_PLACE_H_
