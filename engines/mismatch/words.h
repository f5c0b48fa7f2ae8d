// A judgement in sentences, English and Chinese: what was measured, what gives such a shape, what
// to do.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_MISMATCH_WORDS_H_
#define MPNANNY_ENGINES_MISMATCH_WORDS_H_

#include <span>

#include "engines/mismatch/finding.h"
#include "engines/runs/sentence.h"

namespace mpnanny::mismatch {

struct Words {
  runs::Sentence title;     // "Tokens of later documents of a row disagree"
  runs::Sentence measured;  // the numbers that say so
  runs::Sentence meaning;   // what gives such a shape; nothing of it was measured
  runs::Sentence fix;
};

Words WordsOf(const Judgement& judgement, std::span<const Call> calls);

// "rms of the difference 0.031 nats over 1,024 tokens of update 3 …".
runs::Sentence SizeOf(const Call& call);

}  // namespace mpnanny::mismatch

#endif  // MPNANNY_ENGINES_MISMATCH_WORDS_H_
