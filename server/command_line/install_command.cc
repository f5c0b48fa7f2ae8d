// `mpnanny install CLIENT`: writes what `config` prints into the client's own file, looks whether
// it works, and takes it out again. Run on the machine where the client runs.
#include <filesystem>
#include <memory>
#include <ostream>
#include <utility>

#include "base/files.h"
#include "base/program.h"
#include "base/text.h"
#include "base/unified_diff.h"
#include "server/client_file/change.h"
#include "server/command_line/client_block.h"
#include "server/command_line/client_options.h"
#include "server/command_line/commands.h"
#include "server/command_line/http_endpoint.h"
#include "server/command_line/launch.h"
#include "server/command_line/print_checks.h"
#include "server/command_line/progress_line.h"
#include "server/doctor/http_checks.h"
#include "server/doctor/server_checks.h"
#include "server/token_file.h"

namespace mpnanny {
namespace {

struct InstallOptions {
  ClientOptions client;
  std::string program;
  std::string file;
  bool project = false;
  bool dry_run = false;
  bool undo = false;
};

// What is written, and what can be looked at afterwards.
struct Wanted {
  Json block;
  HttpTarget http{};        // with --http
  std::string program;      // else: the server's own path, where it is started
  bool starts_here = true;  // the words can be started on this machine
};

Result<std::string> FileOf(const Client& client, const InstallOptions& options) {
  if (!options.file.empty() && options.project) {
    return InvalidInput("--file and --project both say where: one of them.");
  }
  if (!options.file.empty()) return options.file;
  if (options.project) {
    if (*client.project_file) return std::string(client.project_file);
    return InvalidInput(std::string(client.title) + " has no file for one project.",
                        "Leave --project out.");
  }
  if (options.client.wsl) {
    return InvalidInput("Where does the file of the client lie in Windows?",
                        "Pass --file, e.g. /mnt/c/Users/NAME/… as `mpnanny config " +
                            std::string(client.name) + " --wsl` tells.");
  }
  return UserFile(client);
}

// This program, or another one that is named; over ssh one on the other machine.
Result<Launch> ServerOf(const InstallOptions& options) {
  const AccessOptions& access = options.client.access;
  const bool here = options.client.ssh_host.empty();
  if (!options.program.empty() && !IsAbsolute(options.program, here)) {
    return InvalidInput("--program must be an absolute path: clients start it anywhere.");
  }
  if (here) {
    Result<Launch> launch = LocalLaunch(access);
    if (launch && !options.program.empty()) launch->command = options.program;
    return launch;
  }
  if (access.roots.empty()) {
    return InvalidInput(
        "Which folder of " + EscapeControl(options.client.ssh_host, 200) + " may be read?",
        "Pass --root DIR, as that machine names it.");
  }
  Launch launch{options.program.empty() ? ProgramPath() : options.program, {"serve"}};
  const auto add = [&](const char* option, const std::string& folder) -> Result<void> {
    if (!folder.starts_with("/") && !IsDatabaseUrl(folder)) {
      return InvalidInput(std::string(option) + " " + EscapeControl(folder, 300) +
                          " must be an absolute path: it is one of the other machine.");
    }
    launch.arguments.insert(launch.arguments.end(), {option, folder});
    return {};
  };
  for (const std::string& root : access.roots) {
    MPN_TRY(add("--root", root));
  }
  if (!access.data_dir.empty()) {
    MPN_TRY(add("--data-dir", access.data_dir));
  }
  if (access.allow_exec) launch.arguments.push_back("--allow-exec");
  if (access.allow_gpu) launch.arguments.push_back("--allow-gpu");
  if (access.allow_weaker_sandbox) launch.arguments.push_back("--allow-weaker-sandbox");
  if (!access.python.empty()) {
    launch.arguments.insert(launch.arguments.end(), {"--python", access.python});
  }
  return launch;
}

Result<Wanted> WantedOverHttp(const Client& client, const InstallOptions& options) {
  const ClientOptions& given = options.client;
  if (!given.ssh_host.empty() || !options.program.empty() || !given.access.roots.empty() ||
      !given.access.data_dir.empty() || given.access.allow_exec) {
    return InvalidInput(
        "--http names a server that runs: --ssh, --program, --root, --data-dir and --allow-exec "
        "are for one that the client starts.",
        "Leave them out, or leave --http out.");
  }
  MPN_TRY_ASSIGN(const HttpEndpoint endpoint, ParseHttpEndpoint(given.http_url));
  std::string token;
  if (!given.token_file.empty()) {
    Result<std::string> read = ReadTokenFile(given.token_file);
    if (!read) return read.error();
    token = *std::move(read);
  }
  return Wanted{.block = HttpBlock(client, {endpoint.Url(), token}),
                .http = {endpoint.Origin(), endpoint.path, token},
                .program = ""};
}

Result<Wanted> WantedFor(const Client& client, const InstallOptions& options) {
  const ClientOptions& given = options.client;
  if (!given.http_url.empty()) return WantedOverHttp(client, options);
  Result<Launch> launch = ServerOf(options);
  if (!launch) return launch.error();
  const std::string program = launch->command;
  if (!given.ssh_host.empty()) launch = SshLaunch(given.ssh_host, *launch);
  if (!launch) return launch.error();
  if (given.wsl) launch = WslLaunch(given.distribution, *launch);
  return Wanted{
      .block = StdioBlock(client, *launch), .program = program, .starts_here = !given.wsl};
}

// Looks at what the file says now.
Result<Checks> Look(const ClientPlace& place, const Wanted& wanted, const std::string& ssh_host) {
  if (!wanted.http.origin.empty()) return CheckHttp(wanted.http);
  MPN_TRY_ASSIGN(const std::string text, ReadFile(place.path, UINT64_MAX));
  MPN_TRY_ASSIGN(const Json block, BlockIn(place.format, text, place.key));
  const Json& entry = ValueAt(block, {place.key.c_str(), kServerName});
  std::vector<std::string> words = {entry["command"].get<std::string>()};
  for (const Json& word : entry["args"]) words.push_back(word.get<std::string>());
  return CheckServer({.words = words, .ssh_host = ssh_host, .program = wanted.program});
}

// What became of the file; "" where nothing had to be done.
std::string Told(const FileChange& change, bool undo) {
  const std::string shown = EscapeControl(change.path, 500);
  if (undo) {
    if (!change.after) return shown + " held nothing but mpnanny's entry and is gone.\n";
    return "mpnanny's entry is out of " + shown + ".\n";
  }
  std::string told = "Wrote " + shown + ".";
  if (change.backup == FileChange::Backup::kWrite) {
    told += " What was there before is in " + EscapeControl(BackupPath(change.path), 500) + ".";
  }
  return told + "\n";
}

Result<int> Undo(const CommandLineContext& context, const Client& client, const ClientPlace& place,
                 bool dry_run) {
  MPN_TRY_ASSIGN(const FileChange change, PlanUndo(place));
  if (!change.Changes() && change.backup == FileChange::Backup::kKeep) {
    context.out << "There is no entry of mpnanny in " << EscapeControl(place.path, 500) << ".\n";
    return 0;
  }
  if (dry_run) {
    context.out << UnifiedDiff(place.path, change.before.value_or(""), change.after.value_or(""));
    return 0;
  }
  MPN_TRY(MakeChange(change));
  context.out << Told(change, true) << client.after << "\n";
  return 0;
}

Result<int> Install(const CommandLineContext& context, InstallOptions options) {
  MPN_TRY_ASSIGN(const Client client, ChosenClient(options.client));
  MPN_TRY_ASSIGN(const std::string file, FileOf(client, options));
  std::error_code error;
  const ClientPlace place{std::filesystem::absolute(file, error).generic_string(), client.format,
                          client.key};
  if (options.undo) return Undo(context, client, place, options.dry_run);
  MPN_TRY_ASSIGN(const Wanted wanted, WantedFor(client, options));
  MPN_TRY_ASSIGN(const FileChange change, PlanInstall(place, wanted.block));
  if (options.dry_run) {
    context.out << UnifiedDiff(place.path, change.before.value_or(""), *change.after);
    if (!change.Changes()) context.out << "Nothing would change: it is already there.\n";
    return 0;
  }
  if (change.Changes()) {
    MPN_TRY(MakeChange(change));
    context.out << Told(change, false);
    if (change.new_folder && options.file.empty() && !options.project) {
      context.out << "Its folder was not there before. Is " << client.title
                  << " installed on this machine? `mpnanny install` is run where the client runs; "
                     "--ssh reaches code on another machine.\n";
    }
    if (!wanted.http.token.empty() && !wanted.block.contains("inputs")) {
      context.out << "The file holds the token now: keep it out of version control.\n";
    }
  } else {
    context.out << "It is already there, in " << EscapeControl(place.path, 500) << ".\n";
  }
  Checks checks;
  if (wanted.starts_here) {
    ProgressLine progress(context.err, context.progress, "mpnanny install");
    Result<Checks> seen = Look(place, wanted, options.client.ssh_host);
    progress.Done();
    if (!seen) return seen.error();
    checks = *std::move(seen);
    PrintChecks(context.out, checks, false);
  }
  context.out << client.after << "\n";
  if (options.client.http_url.empty()) context.out << ExecText(options.client.access);
  return Failed(checks) ? 1 : 0;
}

}  // namespace

void AddInstallCommand(CommandSet& set) {
  const auto options = std::make_shared<InstallOptions>();
  CLI::App& command = *set.parser.add_subcommand(
      "install",
      "Let a client (an AI agent) use mpnanny\n\n"
      "Writes the lines of `mpnanny config` into the client's own file, keeps a copy of it beside "
      "it, starts\nwhat was written once to see whether it works, and says what to do in the "
      "client. "
      "Everything else in\nthe file stays as it is. Run it on the machine where the client runs. "
      "Exit code 1 if it was written\nbut does not work.\n\n"
      "  mpnanny install cursor --root ~/project              client and code on one machine\n"
      "  mpnanny install cursor --root ~/project --allow-exec --python .venv/bin/python\n"
      "                                                       it may also try code of yours\n"
      "  mpnanny install cursor --dry-run                     show the change, write nothing\n"
      "  mpnanny install cursor --undo                        take it out again\n"
      "  mpnanny install cursor --ssh me@gpu-box --program /home/me/mpnanny --root /home/me/code\n"
      "                                                       code on another machine: by ssh\n"
      "  mpnanny install cursor --http http://127.0.0.1:8765/mcp --token-file FILE\n"
      "                                                       a server that runs already");
  AddClientOptions(set, command, options->client,
                   "The code lies on this machine, and so does mpnanny: the client starts it by "
                   "ssh. --program and --root are paths over there");
  command
      .add_option("--program", options->program,
                  "Where mpnanny lies, on the machine where it is started (default: this very one)")
      ->type_name("PATH");
  command.add_flag("--project", options->project,
                   "For the project in this folder only: .mcp.json, .vscode/mcp.json, "
                   ".cursor/mcp.json, .codex/config.toml, .gemini/settings.json");
  command.add_option("--file", options->file, "Write this file instead of the client's own")
      ->type_name("FILE");
  command.add_flag("--dry-run", options->dry_run, "Print what would change, and write nothing");
  command.add_flag("--undo", options->undo,
                   "Take the entry out again; what was there before comes back");
  command.group("For AI agents");
  set.actions.emplace_back(&command, [&context = set.context, options] {
    const Result<int> done = Install(context, *options);
    return done ? *done : PrintError(context, "install", done.error(), false);
  });
}

}  // namespace mpnanny
