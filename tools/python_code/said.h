// What a confined process says of its job, line by line: progress, then an answer or an error, then
// how it ended (base/confinement.h). Both mpnanny-sandbox and mpnanny-worker speak so.
//
// Plain values; what comes from the process is data and is escaped.
#ifndef MPNANNY_TOOLS_PYTHON_CODE_SAID_H_
#define MPNANNY_TOOLS_PYTHON_CODE_SAID_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/child_process.h"
#include "base/json.h"
#include "base/result.h"
#include "tools/tool.h"

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

struct Said {
  std::optional<Json> answer, error, end;
  bool garbage = false;  // a line that is none of ours
  std::string at;        // what it was last busy with, by its own words
  std::optional<int> exit_code;  // of the process itself, where it ended without saying how

  void Take(const std::string& line, const ToolContext& context);

  // Takes what `process` writes until it has said how the job ended, it is silent at `until`, or
  // its output ends. Cancelled or DeadlineExceeded where the call is over; a client that does not
  // wait learns after some seconds that it still runs.
  Result<void> Listen(ChildProcess& process, ChildProcess::Clock::time_point until,
                      const ToolContext& context);

  // The answer, with what was not confined among its `limits`, or why there is none. `errors`: the
  // end of what the process printed.
  Result<Json> Answer(const Allowed& allowed, const std::string& errors) const;
};

}  // namespace mpnanny::python_code

#endif  // MPNANNY_TOOLS_PYTHON_CODE_SAID_H_
