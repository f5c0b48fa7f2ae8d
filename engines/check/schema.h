// What static_check takes and answers, as JSON schemas.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_CHECK_SCHEMA_H_
#define MPNANNY_ENGINES_CHECK_SCHEMA_H_

#include <cstddef>

#include "base/json.h"

namespace mpnanny::check {

// How many sources may be given at once.
inline constexpr size_t kMaxGivenFiles = 500;

Json InputSchema();
Json OutputSchema();

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_SCHEMA_H_
