#include <memory>
#include <string>
#include <vector>

#include "server/command_line/commands.h"
#include "server/serve.h"

namespace mpnanny {

void AddAccessOptions(CLI::App& command, AccessOptions& access) {
  command
      .add_option("--root", access.roots,
                  "Folder that may be read, or a team's database (postgresql://host/db); may be "
                  "repeated. Without it the working directory")
      ->type_name("DIR")
      ->allow_extra_args(false);
  command
      .add_option("--data-dir", access.data_dir,
                  "Folder of your own rules and cases, laid out as in the repository")
      ->type_name("DIR");
  command.add_flag(
      "--allow-exec", access.allow_exec,
      "Allow auto_diff, choose_precision and static_check's prove to run code and models of yours, "
      "confined");
  AddGpuOption(command, access.allow_gpu);
  AddWeakerSandboxOption(command, access.allow_weaker_sandbox);
}

void AddGpuOption(CLI::App& command, bool& allowed) {
  command.add_flag("--allow-gpu", allowed,
                   "Code that runs may compute on this machine's GPUs (docs/sandbox.md)");
}

void AddWeakerSandboxOption(CLI::App& command, bool& allowed) {
  command.add_flag("--allow-weaker-sandbox", allowed,
                   "Run code also where this machine cannot confine it wholly; answers then say "
                   "what lacks");
}

void AddPythonOption(CLI::App& command, AccessOptions& access) {
  command
      .add_option("--python", access.python,
                  "With --allow-exec: the interpreter that trains, in which code of yours runs "
                  "(default: the project's .venv, the active environment, or python3)")
      ->type_name("PYTHON");
}

void AddServeCommand(CommandSet& set) {
  CLI::App& command =
      *set.parser.add_subcommand("serve",
                                 "Serve AI agents over MCP (stdin and stdout, or HTTP)\n\n"
                                 "A client starts this itself; `mpnanny config CLIENT` prints what "
                                 "to tell it. It ends with its stdin.\n"
                                 "With --http it serves many clients at once, until it is stopped. "
                                 "On an address that others can reach it demands a token.\n"
                                 "Files are only read, and only below the roots.");
  const auto options = std::make_shared<ServeOptions>();
  const auto access = std::make_shared<AccessOptions>();
  AddAccessOptions(command, *access);
  AddPythonOption(command, *access);
  const auto folders = std::make_shared<std::vector<std::string>>();
  command.add_option("DIR", *folders, "Folders that may be read, as with --root")->type_name("");
  CLI::Option* const http =
      command
          .add_option("--http", options->http,
                      "Serve Streamable HTTP there, at /mcp, instead of stdin and stdout. Port "
                      "0 takes a free one")
          ->type_name("HOST:PORT");
  command
      .add_option("--token-file", options->token_file,
                  "File with the bearer token that clients must send. Without it the environment's "
                  "MPNANNY_TOKEN, or none")
      ->type_name("FILE")
      ->needs(http);
  command
      .add_option("--allow-host", options->allow_hosts,
                  "Name by which clients may reach the server, beside this machine's own; may be "
                  "repeated")
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->needs(http);
  command
      .add_option("--allow-origin", options->allow_origins,
                  "Origin whose web pages may use the server, as scheme://host[:port]; may be "
                  "repeated")
      ->type_name("ORIGIN")
      ->allow_extra_args(false)
      ->needs(http);
  CLI::Option* const record =
      command
          .add_option("--record", options->record,
                      "Write the session (stdin and stdout) into this new file, as a transcript")
          ->type_name("FILE")
          ->excludes(http);
  const auto transcript = std::make_shared<std::string>();
  command
      .add_option("--replay", *transcript,
                  "Play a transcript against the server, print what differs, and exit with 1 if "
                  "anything does")
      ->type_name("FILE")
      ->excludes(http)
      ->excludes(record);
  command.group("For AI agents");
  set.actions.emplace_back(
      &command, [&context = set.context, access, folders, options, transcript] {
        options->roots = access->roots;
        options->roots.insert(options->roots.end(), folders->begin(), folders->end());
        options->data_dir = access->data_dir;
        options->allow_exec = access->allow_exec;
        options->allow_gpu = access->allow_gpu;
        options->allow_weaker_sandbox = access->allow_weaker_sandbox;
        options->python = access->python;
        if (!transcript->empty()) return ReplayFile(*options, *transcript, context.out);
        return Serve(*options);
      });
}

}  // namespace mpnanny
