// The MCP server over stdin and stdout, or over HTTP: what `mpnanny serve` runs.
//
// One call a process: it takes the process's standard streams and its SIGTERM and SIGINT for
// itself.
#ifndef MPNANNY_SERVER_SERVE_H_
#define MPNANNY_SERVER_SERVE_H_

#include <iosfwd>
#include <string>
#include <vector>

namespace mpnanny {

struct ServeOptions {
  std::vector<std::string> roots;  // --root; empty: the working directory (base/files.h)
  std::string data_dir;     // --data-dir: overlay of the product's data files; empty for none
  bool allow_exec = false;  // --allow-exec: tools may run models and user code
  bool allow_gpu = false;   // --allow-gpu: they may compute on this machine's GPUs
  bool allow_weaker_sandbox = false;  // --allow-weaker-sandbox: also where they are confined less
  std::string python = {};  // --python: the interpreter of that code; empty: that of its project

  std::string http = "";                        // --http HOST:PORT; empty: stdin and stdout
  std::vector<std::string> allow_hosts = {};    // --allow-host
  std::vector<std::string> allow_origins = {};  // --allow-origin
  std::string record = "";                      // --record: file that the session goes into
  std::string token_file = "";                  // --token-file; empty: MPNANNY_TOKEN, or no token
};

// Serves until stdin ends or the client is gone (stdio), or SIGTERM or SIGINT comes. Returns the
// exit code: 0 after a normal end, 2 if the options are unusable (the reason is on stderr).
int Serve(const ServeOptions& options);

// Plays the transcript in `file` against a server with these options and tells `out` what differs.
// Returns the exit code: 0 if nothing does, else 1; 2 if it cannot be played (told on stderr).
int ReplayFile(const ServeOptions& options, const std::string& file, std::ostream& out);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_SERVE_H_
