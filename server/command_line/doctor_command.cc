// `mpnanny doctor`: starts what a client's block starts, and says what keeps it from working.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/program.h"
#include "base/text.h"
#include "server/command_line/commands.h"
#include "server/command_line/http_endpoint.h"
#include "server/command_line/launch.h"
#include "server/command_line/print_checks.h"
#include "server/command_line/progress_line.h"
#include "server/doctor/http_checks.h"
#include "server/doctor/machine_checks.h"
#include "server/doctor/python_check.h"
#include "server/doctor/server_checks.h"
#include "server/token_file.h"

namespace mpnanny {
namespace {

struct DoctorOptions {
  AccessOptions access;
  std::string ssh_host;
  std::string program;
  std::string python;
  std::string http_url;
  std::string token_file;
  std::string format = "text";
};

void Append(Checks& checks, Checks more) {
  for (Check& check : more) checks.push_back(std::move(check));
}

// The server as `config` would start it, but so that what is wrong with it can be told: a root that
// is missing is named by a check and, over there, by the server.
Result<Launch> ServerToStart(const DoctorOptions& options) {
  Launch launch{options.program.empty() ? ProgramPath() : options.program, {"serve"}};
  if (launch.command.empty()) {
    return Unavailable("This system does not tell where the program lies.", "Pass --program PATH.");
  }
  if (!IsAbsolute(launch.command, options.ssh_host.empty())) {
    return InvalidInput("--program must be an absolute path: clients start it anywhere.");
  }
  MPN_TRY_ASSIGN(AllowedRoots here, AllowedRoots::Create({}));
  std::vector<std::string> roots = options.access.roots;
  if (roots.empty()) roots = here.roots();
  if (roots.empty()) return InvalidInput("Which folder may be read?", "Pass --root DIR.");
  for (const std::string& root : roots) {
    // Where ssh leads elsewhere, links of this machine say nothing about that one.
    std::error_code error = std::make_error_code(std::errc::not_supported);
    if (IsDatabaseUrl(root)) {
      launch.arguments.insert(launch.arguments.end(), {"--root", root});
      continue;
    }
    std::filesystem::path path;
    if (options.ssh_host.empty()) path = std::filesystem::canonical(root, error);
    if (error) path = std::filesystem::absolute(root, error);
    launch.arguments.insert(launch.arguments.end(), {"--root", path.generic_string()});
  }
  if (!options.access.data_dir.empty()) {
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::absolute(options.access.data_dir, error);
    launch.arguments.insert(launch.arguments.end(), {"--data-dir", folder.generic_string()});
  }
  if (options.access.allow_exec) launch.arguments.push_back("--allow-exec");
  if (options.access.allow_gpu) launch.arguments.push_back("--allow-gpu");
  if (options.access.allow_weaker_sandbox) launch.arguments.push_back("--allow-weaker-sandbox");
  return launch;
}

// `launch`, over ssh if asked.
Result<Launch> Wrapped(const DoctorOptions& options, const Launch& launch) {
  return options.ssh_host.empty() ? Result<Launch>(launch) : SshLaunch(options.ssh_host, launch);
}

// The server that the client starts.
Result<void> ExamineStart(const DoctorOptions& options, Checks& checks) {
  MPN_TRY_ASSIGN(const Launch server, ServerToStart(options));
  MPN_TRY_ASSIGN(const Launch launch, Wrapped(options, server));
  if (options.ssh_host.empty()) {  // else it would be said of the wrong machine
    std::vector<std::string> roots;
    for (size_t i = 0; i + 1 < server.arguments.size(); ++i) {
      if (server.arguments[i] == "--root") roots.push_back(server.arguments[i + 1]);
    }
    Append(checks, CheckRoots(roots));
    checks.push_back(CheckSqlite());
    checks.push_back(CheckSandbox(server.command));
    checks.push_back(CheckWorker(server.command));
  }
  const bool root_told = std::any_of(checks.begin(), checks.end(), [](const Check& check) {
    return check.name == "root" && check.status == CheckStatus::kFailed;
  });
  for (Check& check : CheckServer(
           {.words = launch.Words(), .ssh_host = options.ssh_host, .program = server.command})) {
    // The server refuses a root that is told already.
    if (!root_told || check.name != "root") checks.push_back(std::move(check));
  }
  return {};
}

// The server that runs already.
Result<void> ExamineHttp(const DoctorOptions& options, Checks& checks) {
  MPN_TRY_ASSIGN(const HttpEndpoint endpoint, ParseHttpEndpoint(options.http_url));
  HttpTarget target{endpoint.Origin(), endpoint.path, ""};
  if (!options.token_file.empty()) {
    Result<std::string> token = ReadTokenFile(options.token_file);
    if (!token) return token.error();
    target.token = *std::move(token);
  }
  Append(checks, CheckHttp(target));
  return {};
}

Result<Checks> Examine(const DoctorOptions& options) {
  const bool http = !options.http_url.empty();
  if (!http && !options.token_file.empty()) {
    return InvalidInput("--token-file belongs to --http URL.");
  }
  if (http && !options.ssh_host.empty()) {
    return InvalidInput("--http asks a server that runs, --ssh starts one: one of them.");
  }
  const AccessOptions& access = options.access;
  if (http && (!options.program.empty() || !access.roots.empty() || !access.data_dir.empty() ||
               access.allow_exec)) {
    return InvalidInput(
        "--http asks a server that runs: --program, --root, --data-dir and --allow-exec are for "
        "one that is started.",
        "Leave them out, or leave --http out.");
  }
  Checks checks;
  const Result<void> done = http ? ExamineHttp(options, checks) : ExamineStart(options, checks);
  if (!done) return done.error();
  if (!options.python.empty()) {
    MPN_TRY_ASSIGN(const Launch python, Wrapped(options, {options.python, {"-c", kPythonProbe}}));
    Append(checks, CheckPython(options.python, python.Words(), options.ssh_host));
  }
  return checks;
}

}  // namespace

void AddDoctorCommand(CommandSet& set) {
  const auto options = std::make_shared<DoctorOptions>();
  CLI::App& command = *set.parser.add_subcommand(
      "doctor",
      "Find out why a client cannot use mpnanny\n\n"
      "Starts what the block of `mpnanny config` starts, talks to it as a client does, and prints "
      "one line\na check: ok, warning or failed, and what to do. Exit code 1 if a check failed.\n"
      "With --ssh it can run on the client's machine as well.");
  command.add_option("--ssh", options->ssh_host, "Start the server on this host, over ssh")
      ->type_name("HOST");
  command
      .add_option("--program", options->program,
                  "Where mpnanny lies, on the machine where it is started (default: this very one)")
      ->type_name("PATH");
  command
      .add_option("--python", options->python,
                  "Look whether this interpreter has torch and the monitor")
      ->type_name("PYTHON");
  command
      .add_option("--http", options->http_url,
                  "Ask the server that listens at this URL, and start none")
      ->type_name("URL");
  command.add_option("--token-file", options->token_file, "With --http: file of its bearer token")
      ->type_name("FILE");
  command.add_option("--format", options->format, "How the checks are printed (default: text)")
      ->type_name("text|json");
  AddAccessOptions(command, options->access);
  command.group("For AI agents");
  set.actions.emplace_back(&command, [&context = set.context, options] {
    const bool json = options->format == "json";
    if (!json && options->format != "text") {
      return PrintError(context, "doctor",
                        InvalidInput("--format must be text or json, not '" +
                                     EscapeControl(options->format, 60) + "'."),
                        false);
    }
    ProgressLine progress(context.err, context.progress, "mpnanny doctor");
    const Result<Checks> checks = Examine(*options);
    progress.Done();
    if (!checks) return PrintError(context, "doctor", checks.error(), json);
    PrintChecks(context.out, *checks, json);
    return Failed(*checks) ? 1 : 0;
  });
}

}  // namespace mpnanny
