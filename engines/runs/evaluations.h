// The losses of evaluations that a log holds: kept beside the steps, for they are not the
// training's course, and told in one piece.
//
// Plain values; free functions.
#ifndef MPNANNY_ENGINES_RUNS_EVALUATIONS_H_
#define MPNANNY_ENGINES_RUNS_EVALUATIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engines/runs/run.h"

namespace mpnanny::runs {

// The type of their events, and what an event says. Only the importer of logs writes them.
inline constexpr std::string_view kEvaluation = "evaluation";
std::string EvaluationDetail(std::string_view name, double loss);

struct Evaluations {
  std::string name;  // of the first, as the log has it: "eval_loss"
  int64_t count = 0, nonfinite = 0;
  std::optional<double> first, last;  // finite ones
  std::optional<int64_t> first_bad;   // step of the first that is not finite
  bool is_nan = false;                // that one
  bool bad_at_end = false;            // the last one is not finite
};

// Of the source's run; none for a monitor's database.
Result<Evaluations> ReadEvaluations(const Source& source);

// "3 evaluations ("eval_loss"): 2.1 at first, 1.9 at the end; 1 of them is not finite, …", a
// sentence; "" if there are none.
std::string EvaluationsText(const Evaluations& evaluations);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_EVALUATIONS_H_
