// Plays a transcript against a server core in this process and compares what it says.
//
// Runs on the calling thread; the core's own threads have ended when it returns, unless `stuck`.
#ifndef MPNANNY_SERVER_TRANSCRIPT_REPLAY_H_
#define MPNANNY_SERVER_TRANSCRIPT_REPLAY_H_

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/registry.h"

namespace mpnanny {

struct ReplayOptions {
  std::vector<std::string> roots = {};         // what "${root}" … stand for
  std::chrono::milliseconds wait_for{60'000};  // a message that is expected
};

struct ReplayReport {
  int sent = 0;
  int compared = 0;
  std::vector<std::string> differences;  // "LINE: PATH: expected …, got …"
  bool stuck = false;  // calls are still at work: end the process without waiting for them
};

// InvalidInput if the transcript itself is wrong; the message names the line.
Result<ReplayReport> Replay(const Registry& registry, std::string_view transcript,
                            const ReplayOptions& options);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_TRANSCRIPT_REPLAY_H_
