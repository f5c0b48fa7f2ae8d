// Median and median distance of the values that a course of steps keeps: what a level and its noise
// are told from.
//
// Pure functions. Values are finite and there is at least one; of an even number the upper of the
// middle two counts, so that the median is always a value that was there.
#ifndef MPNANNY_TOOLS_DIAGNOSE_RUN_MEDIAN_H_
#define MPNANNY_TOOLS_DIAGNOSE_RUN_MEDIAN_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <utility>

namespace mpnanny::diagnose_run {

inline double Median(std::deque<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The median of the distances from `middle`.
inline double MedianDistance(std::deque<double> values, double middle) {
  for (double& value : values) value = std::fabs(value - middle);
  return Median(std::move(values));
}

}  // namespace mpnanny::diagnose_run

#endif  // MPNANNY_TOOLS_DIAGNOSE_RUN_MEDIAN_H_
