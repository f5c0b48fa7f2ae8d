// What two versions of a text differ in, as `diff -u` tells it.
//
// Free function without state.
#ifndef MPNANNY_BASE_UNIFIED_DIFF_H_
#define MPNANNY_BASE_UNIFIED_DIFF_H_

#include <string>
#include <string_view>

namespace mpnanny {

// Runs of changed lines with two lines around each, "" for equal texts. Made for small changes: the
// next equal line is looked for nearby.
std::string UnifiedDiff(const std::string& path, std::string_view before, std::string_view after);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_UNIFIED_DIFF_H_
