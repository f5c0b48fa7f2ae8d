// What each operator of a run adds to the error, beside what it was given.
//
// Follows one run; owns its rows.
#ifndef MPNANNY_ENGINES_WORKER_DIFF_OPERATOR_ERRORS_H_
#define MPNANNY_ENGINES_WORKER_DIFF_OPERATOR_ERRORS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "engines/worker/program/program.h"
#include "engines/worker/run/shadow_runner.h"
#include "numerics/reference_error.h"

namespace mpnanny::worker {

inline constexpr int64_t kFewestWhole = 16;  // elements that are not whole numbers by chance

// What an operator at a line adds, over all its calls. *Accumulated* is how far a result is from
// its reference; *local* is how far it is from what the same operator makes in FP64 of the values
// that it really got.
struct Row {
  Site site;
  int number = 0;  // of its first call
  int count = 0;
  double local = 0, accumulated = 0, absmax = 0, squared_local = 0, wrong_whole = 0;
  int64_t nonfinite = 0;
};

class OperatorErrors {
 public:
  // Of result `index` of `call`, which ran at `place`. `noise`: the reference is 0 but for
  // rounding.
  void Add(int place, const Called& call, size_t index, const ReferenceError& found, bool noise);

  std::vector<Row> Rows() const;  // in the order in which they ran

 private:
  std::map<int, Row> rows_;  // by place
};

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_DIFF_OPERATOR_ERRORS_H_
