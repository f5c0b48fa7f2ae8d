#include "server/command_line/client_block.h"

#include <string_view>
#include <utility>

#include "base/text.h"

namespace mpnanny {
namespace {

constexpr char kServerName[] = "mpnanny";

constexpr Client kClients[] = {
    {.name = "claude-desktop",
     .title = "Claude Desktop",
     .key = "mcpServers",
     .typed = false,
     .files =
         "  Settings > Developer > Edit Config shows the file:\n"
         "  macOS    ~/Library/Application Support/Claude/claude_desktop_config.json\n"
         "  Windows  %LOCALAPPDATA%\\Packages\\Claude_pzs8sxrjxfjjc\\LocalCache\\Roaming\\Claude"
         "\\claude_desktop_config.json\n"
         "           %APPDATA%\\Claude\\claude_desktop_config.json, if installed before "
         "February 2026\n"
         "  Linux    ~/.config/Claude/claude_desktop_config.json\n",
     .after = "Quit Claude Desktop (closing its window is not enough) and start it again.",
     .enter_command = ""},
    {.name = "claude-code",
     .title = "Claude Code",
     .key = "mcpServers",
     .typed = true,
     .files = "  every system  .mcp.json in the project's folder\n",
     .after = "Claude Code asks once whether it may start what .mcp.json names; /mcp shows it.",
     .enter_command = "claude mcp add-json mpnanny"},
    {.name = "vscode",
     .title = "VS Code",
     .key = "servers",
     .typed = true,
     .files = "  one project   .vscode/mcp.json in the project's folder\n"
              "  all projects  the command \"MCP: Open User Configuration\" opens the file:\n"
              "  macOS    ~/Library/Application Support/Code/User/mcp.json\n"
              "  Windows  %APPDATA%\\Code\\User\\mcp.json\n"
              "  Linux    ~/.config/Code/User/mcp.json\n",
     .after = "Press Start above the entry, or run \"MCP: List Servers\".",
     .enter_command = "code --add-mcp"},
    {.name = "cursor",
     .title = "Cursor",
     .key = "mcpServers",
     .typed = false,
     .files = "  one project   .cursor/mcp.json in the project's folder\n"
              "  all projects:\n"
              "  macOS, Linux  ~/.cursor/mcp.json\n"
              "  Windows       %USERPROFILE%\\.cursor\\mcp.json\n",
     .after = "Then restart Cursor and see that the server is switched on among its MCP servers.",
     .enter_command = ""},
};

Json Block(const Client& client, Json entry) {
  return {{client.key, {{kServerName, std::move(entry)}}}};
}

// Claude Desktop starts programs and reads no URL: it skips such an entry, and some versions do not
// start with one. mcp-remote is the bridge that is in use. The header's value stands in the
// environment, because arguments with spaces are torn apart on Windows.
Json BridgeEntry(const HttpServer& server) {
  Json arguments = {"-y", "mcp-remote@latest", server.url, "--transport", "http-only"};
  if (server.url.starts_with("http://")) arguments.push_back("--allow-http");
  Json entry = {{"command", "npx"}};
  if (server.token.empty()) {
    entry["args"] = std::move(arguments);
    return entry;
  }
  arguments.push_back("--header");
  arguments.push_back("Authorization:${AUTH_HEADER}");
  entry["args"] = std::move(arguments);
  entry["env"] = {{"AUTH_HEADER", "Bearer " + server.token}};
  return entry;
}

}  // namespace

Result<Client> FindClient(const std::string& name) {
  std::vector<std::string> names;
  for (const Client& client : kClients) {
    if (name == client.name) return client;
    names.emplace_back(client.name);
  }
  return NoSuchName("client", name, names);
}

Json StdioBlock(const Client& client, const Launch& launch) {
  Json entry = Json::object();
  if (client.typed) entry["type"] = "stdio";
  entry["command"] = launch.command;
  entry["args"] = launch.arguments;
  return Block(client, std::move(entry));
}

Json HttpBlock(const Client& client, const HttpServer& server) {
  const std::string_view name = client.name;
  if (name == "claude-desktop") return Block(client, BridgeEntry(server));
  Json entry = Json::object();
  if (client.typed) entry["type"] = "http";
  entry["url"] = server.url;
  if (server.token.empty()) return Block(client, std::move(entry));
  if (name != "vscode") {
    entry["headers"] = {{"Authorization", "Bearer " + server.token}};
    return Block(client, std::move(entry));
  }
  // VS Code asks once and keeps the answer in the system's key store, so its file, which projects
  // commit, stays free of secrets.
  entry["headers"] = {{"Authorization", "Bearer ${input:mpnanny-token}"}};
  Json block = {{"inputs", Json::array({{{"type", "promptString"},
                                         {"id", "mpnanny-token"},
                                         {"description", "Token of the mpnanny server"},
                                         {"password", true}}})}};
  block.update(Block(client, std::move(entry)));
  return block;
}

std::string EnterLine(const Client& client, const Json& block) {
  const std::string_view command = client.enter_command;
  if (command.empty() || block.contains("inputs")) return "";
  Json entry = block[client.key][kServerName];
  if (std::string_view(client.name) == "vscode") {  // there the name is part of the JSON
    Json named = {{"name", kServerName}};
    named.update(entry);
    entry = std::move(named);
  }
  return std::string(command) + " " + ShellQuote(DumpJson(entry));
}

}  // namespace mpnanny
