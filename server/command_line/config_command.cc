// `mpnanny config CLIENT`: the block that makes a client use this very program, and where it goes.
// Run on the machine where the code lies; the client may be somewhere else.
#include <cstdlib>
#include <memory>
#include <ostream>
#include <string_view>
#include <utility>

#include "base/process_info.h"
#include "base/text.h"
#include "server/command_line/client_block.h"
#include "server/command_line/client_options.h"
#include "server/command_line/commands.h"
#include "server/command_line/http_endpoint.h"
#include "server/command_line/launch.h"
#include "server/token_file.h"

namespace mpnanny {
namespace {

constexpr char kServedPath[] = "/mcp";

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

// What a client's machine would perhaps call this one; "HOST" where that is not known.
std::string ThisHost() {
  const std::string user = Variable("USER");
  const std::string host = HostName();
  return (user.empty() ? "" : user + "@") + (host.empty() ? "HOST" : host);
}

void TellWhere(std::ostream& err, const Client& client, const std::string& first) {
  err << first << " the block below into " << client.title << "'s file:\n" << client.files;
  if (client.format == FileFormat::kToml) {
    err << "Its place is behind what is in the file already. ";
  } else {
    err << "If the file has \"" << client.key
        << "\" already, only \"mpnanny\" joins what is in it. ";
  }
  err << client.after << "\n";
}

// `machine`: where the client runs, "" where that is here.
void TellOneLine(std::ostream& err, const Client& client, const Json& block,
                 const std::string& machine) {
  const std::string line = EnterLine(client, block);
  if (line.empty()) return;
  err << "Or, instead of editing a file, in a POSIX shell" << machine;
  if (std::string_view(client.name) == "claude-code") {
    err << ", in the project's folder (it counts for that folder only; for all of them put -s user "
           "behind add-json)";
  }
  err << ":\n  " << line << "\n";
}

Result<void> PrintStdio(const CommandLineContext& context, const Client& client,
                        const ClientOptions& options) {
  Result<Launch> launch = LocalLaunch(options.access);
  if (!launch) return launch.error();
  std::ostream& err = context.err;
  std::string first = "Paste";
  // What the server is told is what the doctor is told.
  const std::vector<std::string> access(launch->arguments.begin() + 1, launch->arguments.end());
  const std::string program = launch->command;
  if (!options.ssh_host.empty()) {
    first = "On the client's machine, paste";
    const Launch inner = *launch;
    launch = SshLaunch(options.ssh_host, inner);
    if (!launch) return launch.error();
    err << "First, on the client's machine: `" << ShellCommand({"ssh", options.ssh_host, "true"})
        << "` must end without a question and without a word of output. A client cannot type a "
           "password: use a key and an agent, and accept the host's key once by hand.\n";
  } else if (options.wsl) {
    first = "In Windows, paste";
    const std::string distribution =
        options.distribution.empty() ? Variable("WSL_DISTRO_NAME") : options.distribution;
    launch = WslLaunch(distribution, *launch);
  }
  const Json block = StdioBlock(client, *launch);
  TellWhere(err, client, first);
  err << ExecText(options.access);
  if (!options.wsl) {
    TellOneLine(err, client, block, options.ssh_host.empty() ? "" : " on the client's machine");
  }
  if (!options.ssh_host.empty() && std::string_view(client.name) == "vscode") {
    err << "In a window of Remote-SSH the server can start right there: then it is plain `mpnanny "
           "config vscode`, pasted into .vscode/mcp.json on this machine.\n";
  }
  const auto doctor = [&](std::vector<std::string> words) {
    words.insert(words.end(), access.begin(), access.end());
    return "\n  " + ShellCommand(words) + "\n";
  };
  err << "It does not start? On this machine, " << (options.wsl ? "in WSL, " : "")
      << "this says why:" << doctor({program, "doctor"});
  if (!options.ssh_host.empty()) {
    err << "And on the client's machine, if there is an mpnanny, this looks at the way here, too:"
        << doctor({"mpnanny", "doctor", "--ssh", options.ssh_host, "--program", program});
  }
  context.out << BlockText(client.format, block);
  return {};
}

// Where the server listens that a client reaches at `endpoint`: "127.0.0.1:8765".
std::string ListenAddress(const HttpEndpoint& endpoint) {
  const std::string port = ":" + std::to_string(endpoint.port);
  if (endpoint.scheme == "https") return "127.0.0.1:8765";  // the proxy in front of it has the port
  if (endpoint.host == "localhost") return "127.0.0.1" + port;
  if (endpoint.IsLoopback()) return endpoint.host + port;
  return (endpoint.host.starts_with("[") ? "[::]" : "0.0.0.0") + port;
}

// What must run before a client can connect.
void TellServer(std::ostream& err, const HttpEndpoint& endpoint, const Launch& local,
                const ClientOptions& options, const std::string& token_file) {
  const bool loopback = endpoint.IsLoopback();
  const bool behind_proxy = endpoint.scheme == "https";
  const std::string port = std::to_string(endpoint.port);
  const std::string listen = ListenAddress(endpoint);
  std::vector<std::string> http = {"--http", listen};
  if (!token_file.empty()) http.insert(http.end(), {"--token-file", token_file});
  // The server answers only under names that it knows.
  if (!loopback) http.insert(http.end(), {"--allow-host", endpoint.host});
  std::vector<std::string> serve = local.Words();
  serve.insert(serve.begin() + 2, http.begin(), http.end());
  err << "1. On this machine, start the server and leave it running:\n  " << ShellCommand(serve)
      << "\n";
  if (behind_proxy) {
    err << "2. Let your web server, which has the certificate, pass " << endpoint.Url()
        << " on to http://" << listen << "/mcp, with the Authorization header.\n";
  } else if (loopback) {
    const bool told = !options.ssh_host.empty();
    const std::string host = told ? options.ssh_host : ThisHost();
    err << "2. If the client runs on another machine, open a tunnel there and leave it open:\n  "
        << ShellCommand({"ssh", "-N", "-o", "ExitOnForwardFailure=yes", "-o",
                         "ServerAliveInterval=15", "-L", port + ":" + listen, host})
        << "\n";
    if (!told) {
      err << "   (" << host
          << " stands for what that machine calls this one; with --ssh the line is made for it.)\n";
    }
  } else {
    err << "2. Nothing encrypts http://" << endpoint.host
        << ": whoever listens on the network reads the token and your code. A tunnel is safer: "
           "`--http http://127.0.0.1:"
        << port << "/mcp`.\n";
  }
  if (token_file.empty()) {
    err << "Warning: without --token-file everyone with an account on this machine can reach the "
           "server and read what lies below its roots.\n";
  }
}

// A line that asks the server past tunnels and proxies.
void TellDoctor(std::ostream& err, const HttpEndpoint& endpoint, const std::string& program,
                const std::string& token_file) {
  std::string here = ListenAddress(endpoint);
  for (const auto& [all, one] :
       {std::pair<std::string, std::string>{"0.0.0.0:", "127.0.0.1:"}, {"[::]:", "[::1]:"}}) {
    if (here.starts_with(all)) here.replace(0, all.size(), one);
  }
  std::vector<std::string> doctor = {program, "doctor", "--http", "http://" + here + "/mcp"};
  if (!token_file.empty()) doctor.insert(doctor.end(), {"--token-file", token_file});
  err << "It does not connect? On this machine, this says whether the server answers:\n  "
      << ShellCommand(doctor) << "\n";
}

Result<void> PrintHttp(const CommandLineContext& context, const Client& client,
                       const ClientOptions& options) {
  MPN_TRY_ASSIGN(const HttpEndpoint endpoint, ParseHttpEndpoint(options.http_url));
  if (endpoint.path != kServedPath) {
    return InvalidInput("--http: the server answers at " + std::string(kServedPath) + ", not at " +
                            EscapeControl(endpoint.path, 200) + ".",
                        "Use " + endpoint.Origin() + kServedPath + ".");
  }
  if (!options.ssh_host.empty()) {
    MPN_TRY(SshLaunch(options.ssh_host, {}));
  }
  MPN_TRY_ASSIGN(Launch local, LocalLaunch(options.access));
  HttpServer server{endpoint.Url(), ""};
  std::string token_file;
  if (!options.token_file.empty()) {
    Result<std::string> token = ReadTokenFile(options.token_file);
    if (!token) return token.error();
    server.token = *std::move(token);
    Result<std::string> absolute = AllowedRoots::Unrestricted().Resolve(options.token_file);
    if (!absolute) return absolute.error();
    token_file = *std::move(absolute);
  } else if (!endpoint.IsLoopback()) {
    return InvalidInput("Whoever reaches " + endpoint.Origin() +
                            " could read your code: off loopback a token is needed.",
                        "Pass --token-file FILE.");
  }
  const Json block = HttpBlock(client, server);
  std::ostream& err = context.err;
  TellServer(err, endpoint, local, options, token_file);
  if (std::string_view(client.name) == "claude-desktop") {
    err << "Claude Desktop's file has no entry for a URL, and its own connectors (Settings > "
           "Connectors) do not reach a private address. The block goes through mcp-remote, which "
           "needs Node.js; in Windows make it \"command\": \"cmd\" with \"/c\", \"npx\" in front "
           "of the arguments. `mpnanny config claude-desktop --ssh HOST` needs neither.\n";
  }
  TellWhere(err, client, "3. On the client's machine, paste");
  if (block.contains("inputs")) {
    err << "VS Code asks for the token at the first start: it is the line in "
        << ShellQuote(token_file) << ".\n";
  } else if (!token_file.empty()) {
    err << "The block holds the token: keep it out of what others read, version control first.\n";
  }
  TellOneLine(err, client, block, " on the client's machine");
  err << ExecText(options.access);
  TellDoctor(err, endpoint, local.command, token_file);
  context.out << BlockText(client.format, block);
  return {};
}

Result<void> PrintConfig(const CommandLineContext& context, ClientOptions options) {
  MPN_TRY_ASSIGN(const Client client, ChosenClient(options));
  return options.http_url.empty() ? PrintStdio(context, client, options)
                                  : PrintHttp(context, client, options);
}

}  // namespace

void AddConfigCommand(CommandSet& set) {
  const auto options = std::make_shared<ClientOptions>();
  CLI::App& command = *set.parser.add_subcommand(
      "config",
      "Print the lines that make a client use mpnanny\n\n"
      "Run it on the machine where the code lies. The block to paste goes to stdout, where to put "
      "it to\nstderr. Nothing is written and nothing is started; `mpnanny install` writes it.\n\n"
      "  mpnanny config cursor --root ~/project               client and code on one machine\n"
      "  mpnanny config cursor --root ~/project --allow-exec --python .venv/bin/python\n"
      "                                                       it may also try code of yours\n"
      "  mpnanny config claude-desktop --ssh me@gpu-box       client elsewhere: it starts ssh\n"
      "  mpnanny config claude-desktop --wsl                  client in Windows, code in WSL\n"
      "  mpnanny config claude-code --http http://127.0.0.1:8765/mcp --token-file FILE\n"
      "                                                       one server for many, by a tunnel");
  AddClientOptions(set, command, *options,
                   "How the client's machine reaches this one: HOST, USER@HOST or a name of its "
                   "~/.ssh/config");
  command.group("For AI agents");
  set.actions.emplace_back(&command, [&context = set.context, options] {
    const Result<void> printed = PrintConfig(context, *options);
    return printed ? 0 : PrintError(context, "config", printed.error(), false);
  });
}

}  // namespace mpnanny
