// The middle of some figures.
//
// Pure function.
#ifndef MPNANNY_ENGINES_RANKS_MEDIAN_H_
#define MPNANNY_ENGINES_RANKS_MEDIAN_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace mpnanny::ranks {

// Of the finite ones, of two in the middle the greater; NaN where there is none.
inline double Median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace mpnanny::ranks

#endif  // MPNANNY_ENGINES_RANKS_MEDIAN_H_
