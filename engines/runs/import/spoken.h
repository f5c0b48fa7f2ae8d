// What a log says in words of a fault: "NaN loss detected! Skipping batch", "No space left on
// device".
//
// Pure functions on text from outside; safe from any thread.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_SPOKEN_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_SPOKEN_H_

#include <optional>
#include <string_view>

namespace mpnanny::imports {

// What the line reports: a number that is not finite ("nonfinite"), no memory ("memory"), no room
// on a disk ("disk"). None for figures, settings, conditions and plans.
std::optional<std::string_view> SpokenFault(std::string_view line);

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_SPOKEN_H_
