// What comes of a confined job, line by line: of the job, progress, then an answer or an error;
// by those that watch over it, how it ended (base/job_relay.h). Both mpnanny-sandbox and
// mpnanny-worker speak so.
//
// What comes from the job is taken for what it is, the word of a process that may be hostile: one
// answer of a known form at most, and none where anything does not fit. Plain values.
#ifndef MPNANNY_ENGINES_PYTHON_CODE_JOB_OUTPUT_H_
#define MPNANNY_ENGINES_PYTHON_CODE_JOB_OUTPUT_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/child_process.h"
#include "base/json.h"
#include "base/result.h"
#include "engines/call_context.h"

namespace mpnanny::python_code {

// What it was allowed, for the words of an error. `what`: "The code", "The model".
struct Allowed {
  std::string what;
  std::chrono::seconds seconds{60};
  uint64_t memory_mb = 8192;
  int processes = 64;
};

// Beyond the time that a job has: for the process to end what it runs.
inline constexpr std::chrono::seconds kGrace{5};

struct JobOutput {
  // That each line of the job has to hold, beside its one field; "" for jobs that run no code of
  // the user's. It keeps out what has the descriptor only, not what reads the job's memory.
  std::string token;

  std::optional<Json> answer, error, end;
  // Lines of the job that are none, by whom they were written, or too many: the first one's fault.
  std::string stray;
  std::string at;                // what it was last busy with, by its own words
  std::optional<int> exit_code;  // of the process itself, where it ended without saying how

  // One line of the output, with the mark of the job or without.
  void Take(const std::string& line, const ToolContext& context);

  // Takes what `process` writes until it has said how the job ended, it is silent at `until`, or
  // its output ends. Cancelled or DeadlineExceeded where the call is over; a client that does not
  // wait learns after some seconds that it still runs.
  Result<void> Listen(ChildProcess& process, ChildProcess::Clock::time_point until,
                      const ToolContext& context);

  // The answer, with what was not confined among its `limits`, or why there is none. `schema`: of
  // an answer of this tool. `errors`: the end of what the process printed.
  Result<Json> Answer(const Allowed& allowed, const Json& schema, const std::string& errors) const;

 private:
  void TakeOfJob(std::string_view line, const ToolContext& context);
};

}  // namespace mpnanny::python_code

#endif  // MPNANNY_ENGINES_PYTHON_CODE_JOB_OUTPUT_H_
