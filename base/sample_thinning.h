// Which samples of a run stay when there is no room for all: the rule that the monitor's thinner
// and `mpnanny pack` share.
//
// Of the sampled steps, counted from the first, one in 10, 100, … stays whole; of the others only
// the rows that are an extreme of their tensor among a window of samples; and everything near an
// alert. Plain values; functions without state.
#ifndef MPNANNY_BASE_SAMPLE_THINNING_H_
#define MPNANNY_BASE_SAMPLE_THINNING_H_

#include <cstdint>
#include <optional>

namespace mpnanny {

inline constexpr int64_t kThinningAlertSteps = 200;  // around an alert nothing is thinned
inline constexpr int kThinningLevels = 4;            // one of 10, 100, 1,000, 10,000

// Of how many samples one stays whole at a level (1 …).
constexpr int64_t ThinningStride(int level) {
  int64_t stride = 1;
  while (level-- > 0) stride *= 10;
  return stride;
}

// Samples whose extremes are kept together at a level.
constexpr int64_t ThinningWindow(int level) { return 10 * ThinningStride(level); }

// The steps of a window at which one tensor was largest, smallest and first not finite.
struct SampleExtremes {
  double largest = -1, smallest = -1;
  int64_t largest_step = -1, smallest_step = -1, nonfinite_step = -1;

  void Add(int64_t step, std::optional<double> absmax, bool nonfinite) {
    if (absmax && (largest_step < 0 || *absmax > largest)) {
      largest = *absmax;
      largest_step = step;
    }
    if (absmax && (smallest_step < 0 || *absmax < smallest)) {
      smallest = *absmax;
      smallest_step = step;
    }
    if (nonfinite && nonfinite_step < 0) nonfinite_step = step;
  }
  bool Holds(int64_t step) const {
    return step == largest_step || step == smallest_step || step == nonfinite_step;
  }
};

}  // namespace mpnanny

#endif  // MPNANNY_BASE_SAMPLE_THINNING_H_
