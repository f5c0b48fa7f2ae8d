// Cutting long answers where it hurts least.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_ANSWER_SHORTEN_H_
#define MPNANNY_ENGINES_DIAGNOSIS_ANSWER_SHORTEN_H_

#include <string>
#include <vector>

#include "engines/diagnosis/diagnosis.h"

namespace mpnanny::diagnosis {

// At most `bytes` of the text, cut after a sentence where one ends in the second half, else at a
// blank, with "…". Line breaks become blanks.
std::string Shorten(const std::string& text, size_t bytes);

// At most `most` moments: the first, the last and those nearest to a first bad one stay.
std::vector<Moment> Thinned(const std::vector<Moment>& moments, size_t most);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_ANSWER_SHORTEN_H_
