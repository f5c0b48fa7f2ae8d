// `mpnanny config CLIENT`: the block that makes a client use this very program, and where it goes.
// Run on the machine where the code lies; the client may be somewhere else.
#include <cstdlib>
#include <memory>
#include <ostream>

#include "base/process_info.h"
#include "base/text.h"
#include "server/command_line/client_block.h"
#include "server/command_line/commands.h"
#include "server/command_line/http_endpoint.h"
#include "server/command_line/launch.h"

namespace mpnanny {
namespace {

struct ConfigOptions {
  std::string client;
  AccessOptions access;
  std::string ssh_host;
  bool wsl = false;
  std::string distribution;
  std::string http_url;
  std::string token_file;
};

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

// What a client's machine would call this one.
std::string ThisHost() {
  const std::string user = Variable("USER");
  const std::string host = HostName();
  return (user.empty() ? "USER" : user) + "@" + (host.empty() ? "HOST" : host);
}

void TellWhere(std::ostream& err, const Client& client, const std::string& first) {
  err << first << " the block below into " << client.title << "'s file:\n"
      << client.files << "If the file has \"" << client.key
      << "\" already, only \"mpnanny\" joins what is in it. " << client.after << "\n";
}

void TellOneLine(std::ostream& err, const Client& client, const Json& block,
                 const std::string& where) {
  const std::string line = EnterLine(client, block);
  if (!line.empty())
    err << "Or, instead of editing a file, in " << where << ":\n  " << line << "\n";
}

Result<void> PrintStdio(const CommandLineContext& context, const Client& client,
                        const ConfigOptions& options) {
  Result<Launch> launch = LocalLaunch(options.access);
  if (!launch) return launch.error();
  std::ostream& err = context.err;
  std::string first = "Paste";
  std::vector<std::string> doctor = {launch->command, "doctor"};
  // What the server is told is what the doctor is told.
  doctor.insert(doctor.end(), launch->arguments.begin() + 1, launch->arguments.end());
  if (!options.ssh_host.empty()) {
    first = "On the client's machine, paste";
    const Launch inner = *launch;
    launch = SshLaunch(options.ssh_host, inner);
    if (!launch) return launch.error();
    err << "First, on the client's machine: `" << ShellCommand({"ssh", options.ssh_host, "true"})
        << "` must end without a question and without a word of output. A client cannot type a "
           "password: use a key and an agent, and accept the host's key once by hand.\n";
    doctor.insert(doctor.begin() + 2, {"--ssh", options.ssh_host});
  } else if (options.wsl) {
    first = "In Windows, paste";
    const std::string distribution =
        options.distribution.empty() ? Variable("WSL_DISTRO_NAME") : options.distribution;
    launch = WslLaunch(distribution, *launch);
  }
  const Json block = StdioBlock(client, *launch);
  TellWhere(err, client, first);
  if (!options.wsl) TellOneLine(err, client, block, "the project's folder and a POSIX shell");
  if (!options.ssh_host.empty() && std::string_view(client.name) == "vscode") {
    err << "In a window of Remote-SSH the server can start right there: then it is plain `mpnanny "
           "config vscode`, pasted into .vscode/mcp.json on this machine.\n";
  }
  err << "It does not start? This says why:\n  " << ShellCommand(doctor) << "\n";
  context.out << DumpJsonPretty(block) << "\n";
  return {};
}

// What must run before a client can connect.
void TellServer(std::ostream& err, const HttpEndpoint& endpoint, const Launch& local,
                const ConfigOptions& options, const std::string& token_file) {
  std::vector<std::string> serve = local.Words();
  const bool loopback = endpoint.IsLoopback();
  const std::string port = std::to_string(endpoint.port);
  const std::string listen =
      !loopback ? "0.0.0.0" : (endpoint.host == "localhost" ? "127.0.0.1" : endpoint.host);
  const bool behind_proxy = endpoint.scheme == "https";
  serve.insert(serve.begin() + 2,
               {"--http", behind_proxy ? "127.0.0.1:8765" : listen + ":" + port});
  if (!token_file.empty()) serve.insert(serve.begin() + 4, {"--token-file", token_file});
  err << "1. On this machine, start the server and leave it running:\n  " << ShellCommand(serve)
      << "\n";
  if (behind_proxy) {
    err << "2. Let your web server, which has the certificate, pass " << endpoint.Url()
        << " on to http://127.0.0.1:8765/mcp, with the Authorization header.\n";
  } else if (loopback) {
    const std::string host = options.ssh_host.empty() ? ThisHost() : options.ssh_host;
    err << "2. If the client runs on another machine, open a tunnel there and leave it open:\n  "
        << ShellCommand({"ssh", "-N", "-o", "ExitOnForwardFailure=yes", "-o",
                         "ServerAliveInterval=15", "-L", port + ":" + listen + ":" + port, host})
        << "\n";
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

Result<void> PrintHttp(const CommandLineContext& context, const Client& client,
                       const ConfigOptions& options) {
  const Result<HttpEndpoint> endpoint = ParseHttpEndpoint(options.http_url);
  if (!endpoint) return endpoint.error();
  if (!options.ssh_host.empty()) {
    const Result<Launch> usable = SshLaunch(options.ssh_host, {});
    if (!usable) return usable.error();
  }
  Result<Launch> local = LocalLaunch(options.access);
  if (!local) return local.error();
  HttpServer server{endpoint->Url(), ""};
  std::string token_file;
  if (!options.token_file.empty()) {
    Result<std::string> token = ReadTokenFile(options.token_file);
    if (!token) return token.error();
    server.token = *std::move(token);
    Result<std::string> absolute = AllowedRoots::Unrestricted().Resolve(options.token_file);
    if (!absolute) return absolute.error();
    token_file = *std::move(absolute);
  } else if (!endpoint->IsLoopback() && endpoint->scheme == "http") {
    return InvalidInput("Off loopback the server serves only who knows a token.",
                        "Pass --token-file FILE.");
  }
  const Json block = HttpBlock(client, server);
  std::ostream& err = context.err;
  TellServer(err, *endpoint, *local, options, token_file);
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
  TellOneLine(err, client, block, "a POSIX shell on the client's machine");
  context.out << DumpJsonPretty(block) << "\n";
  return {};
}

Result<void> PrintConfig(const CommandLineContext& context, ConfigOptions options) {
  // `config --wsl cursor`: the only word after an option whose value may be left out.
  if (options.client.empty() && FindClient(options.distribution)) {
    std::swap(options.client, options.distribution);
  }
  if (options.client.empty()) {
    return InvalidInput("For which client?",
                        "It takes claude-desktop, claude-code, vscode or cursor.");
  }
  const Result<Client> client = FindClient(options.client);
  if (!client) return client.error();
  if (options.wsl && (!options.ssh_host.empty() || !options.http_url.empty())) {
    return InvalidInput("--wsl starts the server itself; it goes with neither --ssh nor --http.");
  }
  if (options.http_url.empty() && !options.token_file.empty()) {
    return InvalidInput("--token-file belongs to --http URL.");
  }
  return options.http_url.empty() ? PrintStdio(context, *client, options)
                                  : PrintHttp(context, *client, options);
}

}  // namespace

void AddConfigCommand(CommandSet& set) {
  const auto options = std::make_shared<ConfigOptions>();
  CLI::App& command = *set.parser.add_subcommand(
      "config",
      "Print the lines that make a client use mpnanny\n\n"
      "Run it on the machine where the code lies. The block to paste goes to stdout, where to put "
      "it to\nstderr. Nothing is written and nothing is started.\n\n"
      "  mpnanny config cursor --root ~/project               client and code on one machine\n"
      "  mpnanny config claude-desktop --ssh me@gpu-box       client elsewhere: it starts ssh\n"
      "  mpnanny config claude-desktop --wsl                  client in Windows, code in WSL\n"
      "  mpnanny config claude-code --http http://127.0.0.1:8765/mcp --token-file FILE\n"
      "                                                       one server for many, by a tunnel");
  command.add_option("CLIENT", options->client, "claude-desktop, claude-code, vscode or cursor")
      ->type_name("");
  command
      .add_option("--ssh", options->ssh_host,
                  "How the client's machine reaches this one: HOST, USER@HOST or a name of its "
                  "~/.ssh/config")
      ->type_name("HOST");
  CLI::Option* const wsl =
      command
          .add_option("--wsl", options->distribution,
                      "The client runs in Windows, the code lies in this WSL distribution")
          ->type_name("[DISTRO]")
          ->expected(0, 1);
  command
      .add_option("--http", options->http_url,
                  "The server runs already, or will, and the client reaches it at this URL")
      ->type_name("URL");
  command
      .add_option("--token-file", options->token_file,
                  "With --http: file of the bearer token that the server asks for")
      ->type_name("FILE");
  AddAccessOptions(command, options->access);
  command.group("For AI agents");
  set.actions.emplace_back(&command, [&context = set.context, options, wsl] {
    options->wsl = wsl->count() > 0;
    const Result<void> printed = PrintConfig(context, *options);
    return printed ? 0 : PrintError(context, "config", printed.error(), false);
  });
}

}  // namespace mpnanny
