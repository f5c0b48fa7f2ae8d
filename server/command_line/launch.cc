#include "server/command_line/launch.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/files.h"
#include "base/program.h"
#include "base/text.h"

namespace mpnanny {

std::vector<std::string> Launch::Words() const {
  std::vector<std::string> words = {command};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

bool IsAbsolute(const std::string& path, bool here) {
  return here ? std::filesystem::path(path).is_absolute() : path.starts_with("/");
}

std::string AbsolutePython(const std::string& python) {
  if (python.find('/') == std::string::npos) return python;  // looked up in PATH
  std::error_code error;
  // Not its target: that of a virtual environment is the bare interpreter.
  const std::filesystem::path path = std::filesystem::absolute(python, error);
  return error ? python : path.lexically_normal().generic_string();
}

Result<Launch> LocalLaunch(const AccessOptions& access) {
  Launch launch;
  launch.command = ProgramPath();
  if (launch.command.empty()) {
    return Unavailable("This system does not tell where the program lies.");
  }
  MPN_TRY_ASSIGN(AllowedRoots roots, AllowedRoots::Create(access.roots));
  if (roots.roots().empty() && roots.databases().empty()) {
    return InvalidInput("Which folder may be read?", "Pass --root DIR.");
  }
  launch.arguments = {"serve"};
  for (const auto& readable : {roots.roots(), roots.databases()}) {
    for (const std::string& root : readable) {
      launch.arguments.insert(launch.arguments.end(), {"--root", root});
    }
  }
  if (!access.data_dir.empty()) {
    Result<AllowedRoots> folder = AllowedRoots::Create({access.data_dir});
    if (!folder) {
      return NotFound("--data-dir " + EscapeControl(access.data_dir) + " is not a directory.");
    }
    launch.arguments.insert(launch.arguments.end(), {"--data-dir", folder->roots().front()});
  }
  if (access.allow_exec) launch.arguments.push_back("--allow-exec");
  if (access.allow_gpu) launch.arguments.push_back("--allow-gpu");
  if (access.allow_weaker_sandbox) launch.arguments.push_back("--allow-weaker-sandbox");
  if (!access.python.empty()) {
    launch.arguments.insert(launch.arguments.end(), {"--python", AbsolutePython(access.python)});
  }
  for (const std::string& word : launch.Words()) {
    if (IsUtf8(word)) continue;
    return InvalidInput("The path " + EscapeControl(word) +
                            " is not UTF-8, and a client's file, which is JSON, cannot name it.",
                        "Rename it, or name a folder above it.");
  }
  return launch;
}

Result<Launch> SshLaunch(const std::string& host, const Launch& remote) {
  const bool plain =
      std::all_of(host.begin(), host.end(), [](char c) { return c > ' ' && c != 127; });
  if (host.empty() || host.front() == '-' || !plain) {
    return InvalidInput("--ssh '" + EscapeControl(host, 200) + "' names no host.",
                        "It takes what ssh takes: HOST, USER@HOST or a name of ~/.ssh/config.");
  }
  Launch launch{"ssh", {"-T"}};
  // ClearAllForwardings: clients start a server more than once, and a forwarded port of the user's
  // own configuration can be had only once.
  for (const char* option : {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=15",
                             "ServerAliveCountMax=4", "ClearAllForwardings=yes"}) {
    launch.arguments.insert(launch.arguments.end(), {"-o", option});
  }
  launch.arguments.push_back(host);
  for (const std::string& word : remote.Words()) launch.arguments.push_back(ShellQuote(word));
  return launch;
}

Launch WslLaunch(const std::string& distribution, const Launch& inner) {
  Launch launch{"wsl.exe", {}};
  if (!distribution.empty()) launch.arguments = {"-d", distribution};
  launch.arguments.push_back("-e");  // no shell in between, so nothing is quoted
  for (const std::string& word : inner.Words()) launch.arguments.push_back(word);
  return launch;
}

}  // namespace mpnanny
