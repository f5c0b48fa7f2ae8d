// The page of a run over HTTP, for a browser on this machine: what `mpnanny view` runs.
//
// One call a process: it takes the process's SIGTERM and SIGINT for itself.
#ifndef MPNANNY_SERVER_VIEW_H_
#define MPNANNY_SERVER_VIEW_H_

#include <iosfwd>
#include <string>
#include <vector>

#include "base/result.h"

namespace mpnanny {

struct ViewOptions {
  std::vector<std::string> runs;  // one or two, as tools take them
  int port = 0;                   // 0: a free one
  std::string language = "en";    // en | zh
  std::string data_dir = "";      // --data-dir
};

// Serves the page on the loopback address until SIGTERM or SIGINT, and tells `out` where. The
// page's address cannot be guessed, since a machine has other users; Host and Origin are checked as
// by `serve --http`. An error if there is no such run, or the port is taken.
Result<void> View(const ViewOptions& options, std::ostream& out);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_VIEW_H_
