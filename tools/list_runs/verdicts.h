// What diagnose_run says of listed runs, as far as there is time for it.
//
// One object a call, on one thread. What was judged of a run that nobody writes any more is
// remembered.
#ifndef MPNANNY_TOOLS_LIST_RUNS_VERDICTS_H_
#define MPNANNY_TOOLS_LIST_RUNS_VERDICTS_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/cancel.h"
#include "engines/diagnosis/summary/verdict_words.h"
#include "tools/list_runs/listing.h"
#include "tools/tool.h"

namespace mpnanny::list_runs {

// For all verdicts of an answer: a run of usual size takes some hundredths of a second, one of a
// million steps about one.
inline constexpr std::chrono::milliseconds kVerdictTime{2000};

class Verdicts {
 public:
  // The context is borrowed.
  explicit Verdicts(const ToolContext& context, CancelToken::Clock::duration limit = kVerdictTime)
      : context_(context), until_(CancelToken::Clock::now() + limit) {}

  // nullopt where it could not be read, or not in time.
  std::optional<Health> Of(const ListedRun& listed);
  int64_t left_out() const { return left_out_; }  // for want of time

 private:
  const ToolContext& context_;  // borrowed
  const CancelToken::Clock::time_point until_;
  int64_t left_out_ = 0;
};

}  // namespace mpnanny::list_runs

#endif  // MPNANNY_TOOLS_LIST_RUNS_VERDICTS_H_
