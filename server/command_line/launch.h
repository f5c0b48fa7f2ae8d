// The words that start the server: what `config` prints for a client and `doctor` starts itself.
//
// Plain values and free functions; safe from any thread. Nothing is started here.
#ifndef MPNANNY_SERVER_COMMAND_LINE_LAUNCH_H_
#define MPNANNY_SERVER_COMMAND_LINE_LAUNCH_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "server/command_line/commands.h"

namespace mpnanny {

// A program and its arguments, as a client's configuration names them: no shell reads them here.
struct Launch {
  std::string command;
  std::vector<std::string> arguments;

  std::vector<std::string> Words() const;  // both, in one list
};

// True if `path` does not depend on the working directory: on this machine, or on one that ssh
// reaches, which is no Windows.
bool IsAbsolute(const std::string& path, bool here);

// This very program serving what `access` opens, all paths absolute. Without a root the working
// directory is one; where that cannot be, an error: clients start servers anywhere. An error, too,
// for a path that is not UTF-8: a client's file cannot name it.
// An interpreter as a client's file names it, which is started anywhere.
std::string AbsolutePython(const std::string& python);

Result<Launch> LocalLaunch(const AccessOptions& access);

// `remote` started on `host` over ssh: without a terminal, without questions that nobody could
// answer, with a connection that notices when it is dead. ssh hands the remote shell one line, so
// every word of `remote` is quoted for a shell. Refuses a host that ssh would take for an option.
Result<Launch> SshLaunch(const std::string& host, const Launch& remote);

// `inner` started inside WSL from Windows; an empty distribution is the default one.
Launch WslLaunch(const std::string& distribution, const Launch& inner);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_COMMAND_LINE_LAUNCH_H_
