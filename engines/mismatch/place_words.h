// Of shapes that tell tokens apart (documents, positions, rows, experts): their sentences;
// and numbers as all sentences of the room write them.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_MISMATCH_PLACE_WORDS_H_
#define MPNANNY_ENGINES_MISMATCH_PLACE_WORDS_H_

#include <string>

#include "engines/mismatch/words.h"
#include "engines/runs/show.h"

namespace mpnanny::mismatch {

Words OfPlaces(const Finding& finding);

inline std::string Short(double value) { return runs::Number(value, 2); }
inline std::string Percent(double share) { return runs::Number(100 * share, 3); }

}  // namespace mpnanny::mismatch

#endif  // MPNANNY_ENGINES_MISMATCH_PLACE_WORDS_H_
