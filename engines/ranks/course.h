// How the ranks of a run went beside each other: at steps spread over the run, by how much the
// figures of each rank lie apart from what the ranks have in the middle.
//
// Plain values; free function of one call.
#ifndef MPNANNY_ENGINES_RANKS_COURSE_H_
#define MPNANNY_ENGINES_RANKS_COURSE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engines/runs/run.h"

namespace mpnanny::ranks {

inline constexpr std::string_view kCourseFigures[] = {"loss", "grad_norm", "duration"};
inline constexpr size_t kCourseSteps = 48;  // at most
inline constexpr size_t kCourseRanks = 64;  // those that lie furthest apart are kept

struct Course {
  std::vector<int64_t> steps;  // ascending
  std::vector<int64_t> ranks;  // ascending; of more than kCourseRanks those that lie furthest apart
  size_t ranks_left_out = 0;
  // [figure][rank][step]: |value − median over ranks| / |median|; NaN: not known; infinite: the
  // value is not finite, and the median is.
  std::vector<std::vector<std::vector<float>>> apart;
};

// Nothing of a run that one rank is read of.
Result<Course> ReadCourse(const runs::Source& source);

}  // namespace mpnanny::ranks

#endif  // MPNANNY_ENGINES_RANKS_COURSE_H_
