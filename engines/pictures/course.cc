#include "engines/pictures/course.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engines/runs/step_reader.h"
#include "engines/runs/whole_run.h"

namespace mpnanny::pictures {
namespace {

constexpr uint32_t kSkippedFlag = 8;  // step.flags, schema.sql

void Add(CurvePoint& point, const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return;
  point.least = std::min(point.least.value_or(*value), *value);
  point.greatest = std::max(point.greatest.value_or(*value), *value);
  point.last = value;
}

}  // namespace

Result<Course> ReadCourse(const runs::Source& source) {
  Course course;
  MPN_TRY_ASSIGN(auto reader, runs::StepReader::Create(source));
  MPN_TRY_ASSIGN(auto first, reader.From(std::numeric_limits<int64_t>::min()));
  MPN_TRY_ASSIGN(auto last, reader.UpTo(std::numeric_limits<int64_t>::max()));
  if (!first || !last) return course;
  const int64_t begin = first->step;
  // In double: steps may lie further apart than an integer holds.
  const double width = (static_cast<double>(*last) - static_cast<double>(begin) + 1) / kStretches;
  size_t current = std::numeric_limits<size_t>::max();
  MPN_TRY_ASSIGN(
      auto ended, runs::ForEachStepInTime(source, runs::kPassTime, [&](const runs::StepRow& row) {
        const double along = static_cast<double>(row.step) - static_cast<double>(begin);
        const auto at = static_cast<size_t>(along / std::max(1.0, width));
        if (at != current || course.stretches.empty()) {
          course.stretches.push_back({.first_step = row.step, .last_step = row.step, .points = {}});
          current = at;
        }
        CourseStretch& stretch = course.stretches.back();
        stretch.last_step = row.step;
        Add(stretch.points[kLoss], row.loss);
        Add(stretch.points[kGradientNorm], row.grad_norm);
        Add(stretch.points[kLearningRate], row.lr);
        Add(stretch.points[kLossScale], row.loss_scale);
        stretch.not_finite += row.loss && !std::isfinite(*row.loss) ? 1 : 0;
        stretch.skipped += (row.flags & kSkippedFlag) != 0 ? 1 : 0;
        ++course.steps;
      }));
  course.ended_after = ended;
  return course;
}

}  // namespace mpnanny::pictures
