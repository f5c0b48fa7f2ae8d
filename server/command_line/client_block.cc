#include "server/command_line/client_block.h"

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/text.h"

namespace mpnanny {
namespace {

constexpr Client kClients[] = {
    {.name = "claude-desktop",
     .title = "Claude Desktop",
     .key = "mcpServers",
     .typed = false,
     .url = "",
     .format = FileFormat::kJson,
     .linux_file = {"XDG_CONFIG_HOME", ".config", "Claude/claude_desktop_config.json"},
     .mac_file = {"", "Library/Application Support", "Claude/claude_desktop_config.json"},
     .windows_file = {"APPDATA", "AppData/Roaming", "Claude/claude_desktop_config.json"},
     .project_file = "",
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
     .url = "url",
     .format = FileFormat::kJson,
     .linux_file = {"CLAUDE_CONFIG_DIR", "", ".claude.json"},
     .mac_file = {"CLAUDE_CONFIG_DIR", "", ".claude.json"},
     .windows_file = {"CLAUDE_CONFIG_DIR", "", ".claude.json"},
     .project_file = ".mcp.json",
     .files = "  one project   .mcp.json in the project's folder\n"
              "  all projects  ~/.claude.json, on every system\n",
     .after = "Start Claude Code again; /mcp shows it. It asks once whether it may start what a "
              "project's .mcp.json names.",
     .enter_command = "claude mcp add-json mpnanny"},
    {.name = "vscode",
     .title = "VS Code",
     .key = "servers",
     .typed = true,
     .url = "url",
     .format = FileFormat::kLenientJson,
     .linux_file = {"XDG_CONFIG_HOME", ".config", "Code/User/mcp.json"},
     .mac_file = {"", "Library/Application Support", "Code/User/mcp.json"},
     .windows_file = {"APPDATA", "AppData/Roaming", "Code/User/mcp.json"},
     .project_file = ".vscode/mcp.json",
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
     .url = "url",
     .format = FileFormat::kLenientJson,
     .linux_file = {"", ".cursor", "mcp.json"},
     .mac_file = {"", ".cursor", "mcp.json"},
     .windows_file = {"", ".cursor", "mcp.json"},
     .project_file = ".cursor/mcp.json",
     .files = "  one project   .cursor/mcp.json in the project's folder\n"
              "  all projects:\n"
              "  macOS, Linux  ~/.cursor/mcp.json\n"
              "  Windows       %USERPROFILE%\\.cursor\\mcp.json\n",
     .after = "Then restart Cursor and see that the server is switched on among its MCP servers.",
     .enter_command = ""},
    {.name = "windsurf",
     .title = "Windsurf",
     .key = "mcpServers",
     .typed = false,
     .url = "serverUrl",
     .format = FileFormat::kLenientJson,
     .linux_file = {"", ".codeium/windsurf", "mcp_config.json"},
     .mac_file = {"", ".codeium/windsurf", "mcp_config.json"},
     .windows_file = {"", ".codeium/windsurf", "mcp_config.json"},
     .project_file = "",
     .files = "  macOS, Linux  ~/.codeium/windsurf/mcp_config.json\n"
              "  Windows       %USERPROFILE%\\.codeium\\windsurf\\mcp_config.json\n",
     .after = "Then press Refresh among Cascade's MCP servers, or restart Windsurf.",
     .enter_command = ""},
    {.name = "zed",
     .title = "Zed",
     .key = "context_servers",
     .typed = false,
     .url = "url",
     .format = FileFormat::kLenientJson,
     .linux_file = {"XDG_CONFIG_HOME", ".config", "zed/settings.json"},
     .mac_file = {"", ".config", "zed/settings.json"},
     .windows_file = {"APPDATA", "AppData/Roaming", "Zed/settings.json"},
     .project_file = "",
     .files = "  the command \"zed: open settings file\" opens it:\n"
              "  macOS, Linux  ~/.config/zed/settings.json\n"
              "  Windows       %APPDATA%\\Zed\\settings.json\n",
     .after = "Zed reads it at once: the agent panel's settings show a green dot beside mpnanny.",
     .enter_command = ""},
    {.name = "codex",
     .title = "Codex",
     .key = "mcp_servers",
     .typed = false,
     .url = "url",
     .format = FileFormat::kToml,
     .linux_file = {"CODEX_HOME", ".codex", "config.toml"},
     .mac_file = {"CODEX_HOME", ".codex", "config.toml"},
     .windows_file = {"CODEX_HOME", ".codex", "config.toml"},
     .project_file = ".codex/config.toml",
     .files = "  one project   .codex/config.toml in the folder of a project that Codex trusts\n"
              "  all projects:\n"
              "  macOS, Linux  ~/.codex/config.toml\n"
              "  Windows       %USERPROFILE%\\.codex\\config.toml\n",
     .after = "Start Codex again; /mcp shows it.",
     .enter_command = ""},
    {.name = "gemini",
     .title = "Gemini CLI",
     .key = "mcpServers",
     .typed = false,
     .url = "httpUrl",
     .format = FileFormat::kLenientJson,
     .linux_file = {"", ".gemini", "settings.json"},
     .mac_file = {"", ".gemini", "settings.json"},
     .windows_file = {"", ".gemini", "settings.json"},
     .project_file = ".gemini/settings.json",
     .files = "  one project   .gemini/settings.json in the project's folder\n"
              "  all projects:\n"
              "  macOS, Linux  ~/.gemini/settings.json\n"
              "  Windows       %USERPROFILE%\\.gemini\\settings.json\n",
     .after = "Start gemini again; /mcp shows it.",
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
  for (const Client& client : kClients) {
    if (name == client.name) return client;
  }
  return NoSuchName("client", name, ClientNames());
}

std::vector<std::string> ClientNames() {
  std::vector<std::string> names;
  for (const Client& client : kClients) names.emplace_back(client.name);
  return names;
}

Result<std::string> UserFile(const Client& client) {
#ifdef __APPLE__
  const FilePlace& place = client.mac_file;
#elif defined(_WIN32)
  const FilePlace& place = client.windows_file;
#else
  const FilePlace& place = client.linux_file;
#endif
#ifdef _WIN32
  constexpr char kHome[] = "USERPROFILE";
#else
  constexpr char kHome[] = "HOME";
#endif
  const auto variable = [](const char* name) {
    const char* const value = *name ? std::getenv(name) : nullptr;
    const std::filesystem::path folder(value ? value : "");
    return folder.is_absolute() ? folder.generic_string() : "";
  };
#ifdef _WIN32
  if (std::string_view(client.name) == "claude-desktop") {
    // As it is installed today it sees a folder of its own in the place of %APPDATA%.
    const std::string package =
        variable("LOCALAPPDATA") + "/Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/";
    std::error_code error;
    if (std::filesystem::is_directory(package, error)) return package + place.file;
  }
#endif
  if (const std::string folder = variable(place.variable); !folder.empty()) {
    return folder + "/" + place.file;
  }
  const std::string home = variable(kHome);
  if (home.empty()) {
    return Unavailable(std::string(kHome) + " names no folder.", "Pass --file PATH.");
  }
  return home + "/" + place.folder + (*place.folder ? "/" : "") + place.file;
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
  if (!*client.url) return Block(client, BridgeEntry(server));
  Json entry = Json::object();
  if (client.typed) entry["type"] = "http";
  entry[client.url] = server.url;
  if (server.token.empty()) return Block(client, std::move(entry));
  if (name != "vscode") {
    entry[name == "codex" ? "http_headers" : "headers"] = {
        {"Authorization", "Bearer " + server.token}};
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
