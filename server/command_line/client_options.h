// The options by which a person says which client is meant and how it reaches this program: those
// of `config` and `install`.
//
// Plain values and free functions; used by one thread.
#ifndef MPNANNY_SERVER_COMMAND_LINE_CLIENT_OPTIONS_H_
#define MPNANNY_SERVER_COMMAND_LINE_CLIENT_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "base/result.h"
#include "server/command_line/client_block.h"
#include "server/command_line/commands.h"

namespace mpnanny {

struct ClientOptions {
  std::string client;
  AccessOptions access;
  std::string ssh_host;
  const CLI::Option* wsl_option = nullptr;  // its value may be left out
  bool wsl = false;                         // set by ChosenClient()
  std::string distribution;
  std::string http_url;
  std::string token_file;
};

// `ssh`: what the command's help says of --ssh.
void AddClientOptions(CommandSet& set, CLI::App& command, ClientOptions& options,
                      const std::string& ssh);

// The client, if the options go together.
// What "is this loss safe in FP16?" needs of a server that may run no code; "" of one that may.
std::string ExecText(const AccessOptions& access);

Result<Client> ChosenClient(ClientOptions& options);

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_COMMAND_LINE_CLIENT_OPTIONS_H_
