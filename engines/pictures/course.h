// Curves over the steps of a run at a level of detail that a page can hold: every stretch of steps
// keeps its least, greatest and last value, so that no spike is lost.
//
// Plain values; a free function. Memory is bounded by the number of stretches.
#ifndef MPNANNY_ENGINES_PICTURES_COURSE_H_
#define MPNANNY_ENGINES_PICTURES_COURSE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engines/runs/run.h"

namespace mpnanny::pictures {

// Finite values of one stretch; absent where it has none.
struct CurvePoint {
  std::optional<double> least, greatest, last;
};

enum Metric : size_t { kLoss, kGradientNorm, kLearningRate, kLossScale, kMetrics };
inline constexpr std::array<const char*, kMetrics> kMetricNames = {"loss", "grad_norm", "lr",
                                                                   "loss_scale"};

struct CourseStretch {
  int64_t first_step = 0, last_step = 0;
  std::array<CurvePoint, kMetrics> points;
  int64_t not_finite = 0;  // losses
  int64_t skipped = 0;     // steps without an update
};

struct Course {
  std::vector<CourseStretch> stretches;  // ascending; those without a step are left out
  int64_t steps = 0;
  std::optional<int64_t> ended_after;  // later steps were not read for want of time
};

inline constexpr size_t kStretches = 1000;

Result<Course> ReadCourse(const runs::Source& source);

}  // namespace mpnanny::pictures

#endif  // MPNANNY_ENGINES_PICTURES_COURSE_H_
