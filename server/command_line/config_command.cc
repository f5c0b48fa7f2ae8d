// `mpnanny config CLIENT`: the block that makes a client start this very program.
#include <memory>
#include <ostream>
#include <span>

#include "base/program.h"
#include "base/text.h"
#include "server/command_line/commands.h"

namespace mpnanny {
namespace {

struct Client {
  const char* name;
  const char* key;    // under which the client lists its servers
  bool typed;         // the client wants "type": "stdio"
  const char* where;  // file to put the block into
};

// Files as the clients' own documentation names them.
constexpr Client kClients[] = {
    {"claude-desktop", "mcpServers", false,
     "claude_desktop_config.json (Claude Desktop: Settings > Developer > Edit Config), then "
     "restart it"},
    {"claude-code", "mcpServers", true, ".mcp.json in the project's folder"},
    {"vscode", "servers", true, ".vscode/mcp.json in the project's folder"},
    {"cursor", "mcpServers", false,
     ".cursor/mcp.json in the project's folder, or in the home folder for all projects"},
};

Result<void> PrintConfig(const CommandLineContext& context, const std::string& name,
                         const AccessOptions& access) {
  const Client* client = nullptr;
  std::vector<std::string> names;
  for (const Client& candidate : kClients) {
    names.emplace_back(candidate.name);
    if (name == candidate.name) client = &candidate;
  }
  if (!client) {
    const std::string meant = DidYouMean(name, names);
    return InvalidInput("Unknown client '" + EscapeControl(name, 100) + "'.",
                        meant.empty() ? "Known are " + Join(names, ", ") + "." : meant);
  }
  const std::string program = ProgramPath();
  if (program.empty()) return Unavailable("This system does not tell where the program lies.");
  // Clients start servers anywhere, often in "/": the block names the roots.
  Result<AllowedRoots> roots = AllowedRoots::Create(access.roots);
  if (!roots) return roots.error();
  if (roots->roots().empty()) return InvalidInput("Which folder may be read?", "Pass --root DIR.");
  Json arguments = {"serve"};
  for (const std::string& root : roots->roots()) {
    arguments.push_back("--root");
    arguments.push_back(root);
  }
  if (!access.data_dir.empty()) {
    Result<AllowedRoots> folder = AllowedRoots::Create({access.data_dir});
    if (!folder) return folder.error();
    arguments.push_back("--data-dir");
    arguments.push_back(folder->roots().front());
  }
  if (access.allow_exec) arguments.push_back("--allow-exec");
  Json server = Json::object();
  if (client->typed) server["type"] = "stdio";
  server["command"] = program;
  server["args"] = std::move(arguments);
  context.err << "Put this into " << client->where << ":\n";
  context.out << DumpJsonPretty({{client->key, {{"mpnanny", std::move(server)}}}}) << "\n";
  return {};
}

}  // namespace

void AddConfigCommand(CommandSet& set) {
  struct Values {
    std::string client;
    AccessOptions access;
  };
  const auto values = std::make_shared<Values>();
  CLI::App& command = *set.parser.add_subcommand(
      "config",
      "Print the lines that make a client start mpnanny\n\n"
      "The block goes to stdout, where to put it to stderr. Nothing is written.");
  command.add_option("CLIENT", values->client, "claude-desktop, claude-code, vscode or cursor")
      ->required()
      ->type_name("");
  AddAccessOptions(command, values->access);
  command.group("For AI agents");
  set.actions.emplace_back(&command, [&context = set.context, values] {
    const Result<void> printed = PrintConfig(context, values->client, values->access);
    return printed ? 0 : PrintError(context, "config", printed.error(), false);
  });
}

}  // namespace mpnanny
