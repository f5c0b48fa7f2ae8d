// The causes of what went wrong, most likely first: what shadow steps measured, joined with the
// documented cases that fit, and cases that stand on the record alone.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_CAUSES_CAUSES_H_
#define MPNANNY_ENGINES_DIAGNOSIS_CAUSES_CAUSES_H_

#include <vector>

#include "engines/diagnosis/cases/rank.h"

namespace mpnanny::diagnosis {

// What was only recognised is believed no more than this, and comes after all that was measured.
inline constexpr double kMostRecognised = 0.5;
// Of a log, which shows no layer and no operator, unless it holds a line that the case names.
inline constexpr double kLogOnly = 0.4;
// Whether the first cause was measured, and is sure enough to be called the cause.
bool IsEstablished(const std::vector<Hypothesis>& causes);

std::vector<Hypothesis> FindCauses(const Facts& facts, const std::vector<Claim>& claims,
                                   const cases::CaseLibrary& library);

// The mechanism that the first bad moment comes from, else the worst one; nullptr: there is none.
const Mechanism* LeadingMechanism(const Facts& facts);

// Whether loss or gradients had left their level before the mechanism was first seen, so that it
// says nothing about why they did. FP16 and FP8, whose range ends early, are an exception.
bool IsAfterDivergence(const Facts& facts, const Mechanism& mechanism);

// Whether what the mechanism's first finding shows can have made the first value that is not
// finite.
bool ExplainsOnset(const Facts& facts, const Mechanism& mechanism);

// Whether one of the case's signs is what the training loop did.
bool StandsOnLoop(const std::vector<Claim>& claims, const cases::Case& cause);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_CAUSES_CAUSES_H_
