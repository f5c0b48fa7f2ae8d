// A tape for a person: what was found, and why each result is a finding or none.
//
// Pure functions. Names come out as the tape holds them: whoever shows them makes them safe.
#ifndef MPNANNY_ENGINES_JUDGEMENT_TAPE_PAGE_H_
#define MPNANNY_ENGINES_JUDGEMENT_TAPE_PAGE_H_

#include <string>

#include "engines/judgement/replay.h"
#include "engines/judgement/tape.h"

namespace mpnanny::judgement {

// The step, the findings that count and how the results were judged.
std::string PageOf(const Tape& tape, const Replay& replay);

// Every row, with the operators and figures that it refers to, and of each result that is not clean
// why it is a finding or none. Findings that do not count stand at the end, and the layers.
std::string RowsOf(const Tape& tape, const Replay& replay);

// What was made of a result: "finding 1", "carried: 0.3 came in …". "" of a clean one.
std::string WhyText(const Replay::Judged& judged);

}  // namespace mpnanny::judgement

#endif  // MPNANNY_ENGINES_JUDGEMENT_TAPE_PAGE_H_
