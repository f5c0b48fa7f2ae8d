// How the ranks of one training differ from each other in their mismatch, as a sentence.
//
// Free function without state.
#ifndef MPNANNY_ENGINES_MISMATCH_RANKS_H_
#define MPNANNY_ENGINES_MISMATCH_RANKS_H_

#include <span>
#include <string>

#include "engines/mismatch/call.h"

namespace mpnanny::mismatch {

// `ranks`: two or more, `shown` among them, which is furthest apart. Where it is so by a factor
// (kContrast of judge.h), what it alone has is what to look at.
std::string RanksText(const RankSize& shown, std::span<const RankSize> ranks);

}  // namespace mpnanny::mismatch

#endif  // MPNANNY_ENGINES_MISMATCH_RANKS_H_
