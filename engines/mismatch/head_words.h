// Of shapes that are found by another head or another way of sampling (a format, a soft cap, a
// temperature, a truncation): their sentences.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_MISMATCH_HEAD_WORDS_H_
#define MPNANNY_ENGINES_MISMATCH_HEAD_WORDS_H_

#include "engines/mismatch/words.h"

namespace mpnanny::mismatch {

runs::Sentence SideOf(bool of_trainer);  // "the trainer"

Words OfHead(const Finding& finding);
Words OfTemperature(const Finding& finding);
Words OfTruncated(const Finding& finding);

}  // namespace mpnanny::mismatch

#endif  // MPNANNY_ENGINES_MISMATCH_HEAD_WORDS_H_
