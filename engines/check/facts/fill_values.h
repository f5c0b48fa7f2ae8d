// Constants that masks are filled with.
//
// A mask is filled with a large negative number in many ways: a literal, a buffer, a product with
// ones. Free functions without state; they borrow the FileFacts.
#ifndef MPNANNY_ENGINES_CHECK_FACTS_FILL_VALUES_H_
#define MPNANNY_ENGINES_CHECK_FACTS_FILL_VALUES_H_

#include <optional>

#include "engines/check/facts/facts.h"

namespace mpnanny::check {

// True for a finite number that FP16 does not hold.
bool IsTooLarge(std::optional<double> value);

// The constant of what is written: a number, one in a buffer, or -9e15 * ones_like(scores).
std::optional<double> Written(const FileFacts& facts, NodeId expression);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_FACTS_FILL_VALUES_H_
