// `--watch`: asks a tool again and again while what it answers about goes on, and shows an answer
// when it says something new.
//
// One call a process at a time: it takes SIGINT and SIGTERM for its duration.
#ifndef MPNANNY_SERVER_COMMAND_LINE_FOLLOW_H_
#define MPNANNY_SERVER_COMMAND_LINE_FOLLOW_H_

#include <functional>
#include <iosfwd>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "tools/tool.h"

namespace mpnanny {

struct Following {
  std::ostream& out;
  bool states = false;  // between answers one line of state, written over
  double interval = 2;  // seconds
  // See CommandTwin.
  std::function<Result<WatchedState>(const Json& arguments)> state;
  std::function<Result<ToolOutput>(const Json& arguments)> ask;
  std::function<std::string(const Json& structured)> essence;
  std::function<void(const ToolOutput& output)> show;
};

// Returns the newest answer when there will be no other one, or SIGINT or SIGTERM comes. A first
// question that fails ends it with the error; later ones, as of a file that is just replaced, are
// asked again a few times.
Result<ToolOutput> Follow(const Following& following, Json arguments);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_COMMAND_LINE_FOLLOW_H_
