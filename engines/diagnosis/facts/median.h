// Median and median distance of the values that a course of steps keeps: what a level and its noise
// are told from.
//
// Pure functions. Values are finite and there is at least one; of an even number the upper of the
// middle two counts, so that the median is always a value that was there.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_MEDIAN_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_MEDIAN_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace mpnanny::diagnosis {

inline double Median(std::span<const double> of) {
  std::vector<double> values(of.begin(), of.end());
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The median of the distances from `middle`.
inline double MedianDistance(std::span<const double> of, double middle) {
  std::vector<double> distances;
  for (const double value : of) distances.push_back(std::fabs(value - middle));
  return Median(distances);
}

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_MEDIAN_H_
