// A case's signature, as sentences for people.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_CASES_SIGNAL_WORDS_H_
#define MPNANNY_ENGINES_DIAGNOSIS_CASES_SIGNAL_WORDS_H_

#include <string>
#include <string_view>

#include "engines/cases/signal.h"
#include "engines/diagnosis/facts/facts.h"
#include "engines/runs/sentence.h"

namespace mpnanny::diagnosis {

// "Not seen, though it belongs to this case: the weights themselves are held in FP16 and there is
// no loss scaling."
runs::Sentence UnseenSentence(const cases::Signal& signal);

// "a small rounding error becomes a large one", of SHADOW_AMPLIFIED.
std::string AlertMeaning(std::string_view type);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_CASES_SIGNAL_WORDS_H_
