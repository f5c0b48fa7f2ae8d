// Two runs step by step: one pass over both, aligned by step.
//
// The steps are streamed; what is kept is bounded: beyond kMostPoints common steps neighbours are
// merged in pairs, again and again, and `steps_a_point` says how many steps a point then stands
// for. Plain values; free function.
#ifndef MPNANNY_ENGINES_COMPARISON_COURSE_H_
#define MPNANNY_ENGINES_COMPARISON_COURSE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "engines/diagnosis/summary/summary.h"
#include "engines/runs/run.h"
#include "engines/runs/steps.h"

namespace mpnanny::comparison {

inline constexpr size_t kMostPoints = 1 << 16;
inline constexpr size_t kMostSamples = 1 << 14;

// Figures of both runs at one common step (or the means of some). NaN: not measured, or not finite.
struct Point {
  int64_t step = 0;
  double loss_a, loss_b, norm_a, norm_b, scale_a, scale_b;
};

// A step at which both runs took statistics of tensors.
struct SampledStep {
  int64_t step = 0;
  bool skipped_a = false, skipped_b = false;  // the optimizer's step: gradients may be non-finite
  bool same_scale = true;                     // loss scale; counts of gradients are taken under it
};

// The first common step at which a figure is finite in one run only.
struct OneSided {
  int64_t step = 0;
  double a = 0, b = 0;
};

// The first losses of two runs that begin at one step, where they differ by a factor that neither
// precision nor a seed makes: two losses, or one on two scales (a sum and a mean).
struct ScaleApart {
  int64_t step = 0;
  double a = 0, b = 0;
};

struct Course {
  summary::Summary a, b;  // of each run, whole (within the range asked for)
  std::vector<Point> points;  // common steps
  int64_t common_steps = 0, steps_a_point = 1;
  std::optional<int64_t> first_common, last_common;
  std::vector<SampledStep> samples;  // common; thinned evenly beyond kMostSamples
  bool samples_thinned = false;
  std::optional<OneSided> loss_one_sided;  // NaN or Inf in one
  std::optional<int64_t> lr_parts_at;      // first common step with another learning rate
  double lr_a = 0, lr_b = 0;               // there
  // Median seconds of a step that was not sampled (of any step, where all were); over the common
  // steps.
  std::optional<double> seconds_a, seconds_b;
};

// nullopt where the losses begin on one scale, or nothing tells.
std::optional<ScaleApart> FindScaleApart(const Course& course);

// a's loss is not finite where the record ends, b's is: there is no end to set side by side.
bool OnlyAEndsNotFinite(const Course& course);

Result<Course> ReadCourse(const runs::Source& a, const runs::Source& b,
                          const runs::StepRange& range);

}  // namespace mpnanny::comparison

#endif  // MPNANNY_ENGINES_COMPARISON_COURSE_H_
