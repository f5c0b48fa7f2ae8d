#include "server/command_line/client_options.h"

#include <utility>

#include "base/text.h"

namespace mpnanny {

void AddClientOptions(CommandSet& set, CLI::App& command, ClientOptions& options,
                      const std::string& ssh) {
  CLI::Option* const client =
      command.add_option("CLIENT", options.client, Join(ClientNames(), ", "))->type_name("");
  set.choices[client] = ClientNames();
  command.add_option("--ssh", options.ssh_host, ssh)->type_name("HOST");
  options.wsl_option =
      command
          .add_option("--wsl", options.distribution,
                      "The client runs in Windows, the code lies in this WSL distribution")
          ->type_name("[DISTRO]")
          ->expected(0, 1);
  command
      .add_option("--http", options.http_url,
                  "The server runs already, or will, and the client reaches it at this URL")
      ->type_name("URL");
  command
      .add_option("--token-file", options.token_file,
                  "With --http: file of the bearer token that the server asks for")
      ->type_name("FILE");
  AddAccessOptions(command, options.access);
  AddPythonOption(command, options.access);
}

std::string ExecText(const AccessOptions& access) {
  if (access.allow_exec) return "";
  return "This server reads code and runs none. For it to try a loss or a model (auto_diff, "
         "choose_precision), add --allow-exec to this command and, where the trainings have an "
         "environment of their own, --python /path/to/venv/bin/python.\n";
}

Result<Client> ChosenClient(ClientOptions& options) {
  options.wsl = options.wsl_option && options.wsl_option->count() > 0;
  // `config --wsl cursor`: the only word after an option whose value may be left out.
  if (options.client.empty() && FindClient(options.distribution)) {
    std::swap(options.client, options.distribution);
  }
  if (options.client.empty()) {
    return InvalidInput("For which client?", "It takes " + Join(ClientNames(), ", ") + ".");
  }
  Result<Client> client = FindClient(options.client);
  if (!client) return client;
  if (options.wsl && (!options.ssh_host.empty() || !options.http_url.empty())) {
    return InvalidInput("--wsl starts the server itself; it goes with neither --ssh nor --http.");
  }
  if (options.http_url.empty() && !options.token_file.empty()) {
    return InvalidInput("--token-file belongs to --http URL.");
  }
  return client;
}

}  // namespace mpnanny
