// A course of values on one line of text.
//
// Free function without state; safe from any thread.
#ifndef MPNANNY_ENGINES_RUNS_SPARKLINE_H_
#define MPNANNY_ENGINES_RUNS_SPARKLINE_H_

#include <optional>
#include <string>
#include <vector>

namespace mpnanny::runs {

// One character of the line: nothing is known, or a value, which may be NaN or infinite.
using SparkCell = std::optional<double>;

// "▁▃█! ▄": one character a cell from the least to the greatest value, "!" for one that is not
// finite, a space where nothing is known. On a logarithmic scale where all values are positive and
// span more than two decades.
std::string Sparkline(const std::vector<SparkCell>& cells);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_SPARKLINE_H_
