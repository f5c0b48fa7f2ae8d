// How much work an analysis was, counted in what it looks at and not timed: the limits on ways that
// are followed are held to it (tests/static_check/bounded_test.cc).
#ifndef MPNANNY_ENGINES_CHECK_SYNTAX_WORK_H_
#define MPNANNY_ENGINES_CHECK_SYNTAX_WORK_H_

#include <cstdint>

namespace mpnanny::check {

// Calls of Syntax::Child() and Syntax::Unwrap() by this thread, ever.
int64_t NodeVisits();

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_SYNTAX_WORK_H_
