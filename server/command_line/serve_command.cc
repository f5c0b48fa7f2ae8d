#include <memory>

#include "server/command_line/commands.h"
#include "server/serve.h"

namespace mpnanny {

void AddAccessOptions(CLI::App& command, AccessOptions& access) {
  command
      .add_option("--root", access.roots,
                  "Folder that may be read; may be repeated. Without it the working directory")
      ->type_name("DIR")
      ->allow_extra_args(false);
  command
      .add_option("--data-dir", access.data_dir,
                  "Folder of your own rules and cases, laid out as in the repository")
      ->type_name("DIR");
  command.add_flag("--allow-exec", access.allow_exec,
                   "Allow tools to run models, which can run any code in them");
}

void AddServeCommand(CommandSet& set) {
  CLI::App& command =
      *set.parser.add_subcommand("serve",
                                 "Serve AI agents over MCP (stdin and stdout)\n\n"
                                 "A client starts this itself; `mpnanny config CLIENT` prints what "
                                 "to tell it. It ends with its stdin.\n"
                                 "Files are only read, and only below the roots.");
  const auto access = std::make_shared<AccessOptions>();
  AddAccessOptions(command, *access);
  command.group("For AI agents");
  set.actions.emplace_back(&command, [access] {
    return Serve(
        {.roots = access->roots, .data_dir = access->data_dir, .allow_exec = access->allow_exec});
  });
}

}  // namespace mpnanny
