// The MCP server over stdin and stdout: what `mpnanny serve` runs.
//
// One call a process: it takes the process's standard streams and its SIGTERM and SIGINT for
// itself.
#ifndef MPNANNY_SERVER_SERVE_H_
#define MPNANNY_SERVER_SERVE_H_

#include <string>
#include <vector>

namespace mpnanny {

struct ServeOptions {
  std::vector<std::string> roots;  // --root; empty: the working directory (base/files.h)
  std::string data_dir;     // --data-dir: overlay of the product's data files; empty for none
  bool allow_exec = false;  // --allow-exec: tools may run models and user code
};

// Serves until stdin ends, SIGTERM or SIGINT comes, or the client is gone. Returns the exit code: 0
// after a normal end, 2 if the options are unusable (the reason is on stderr).
int Serve(const ServeOptions& options);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_SERVE_H_
