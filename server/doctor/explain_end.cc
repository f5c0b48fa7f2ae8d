// What it means when a server that was started ends before it answered.
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "server/doctor/server_checks.h"

namespace mpnanny {
namespace {

std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// What people see of a program that ended: the last lines it said, in one.
std::string LastWords(const std::string& errors) {
  constexpr size_t kMostLines = 4;
  std::vector<std::string> lines;
  for (std::string_view line : LinesOf(errors)) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) lines.push_back(EscapeControl(line, 300));
  }
  if (lines.size() > kMostLines) lines.erase(lines.begin(), lines.end() - kMostLines);
  return Join(lines, " | ");
}

// Part of what ssh or a shell says -> the check's name, what it means, what to do. `$H` stands for
// the host and `$P` for the program. The first that fits counts.
struct Sign {
  const char* said;
  const char* name;
  const char* means;
  const char* fix;
};

constexpr Sign kSshSigns[] = {
    {"REMOTE HOST IDENTIFICATION HAS CHANGED", "host key",
     "The key of $H is not the one that ssh knows.",
     "If the machine was set up anew: ssh-keygen -R $H, then `ssh $H` once by hand."},
    {"Host key verification failed", "host key",
     "ssh does not know $H yet, and a client cannot answer its question.",
     "Run `ssh $H` once by hand and accept the key."},
    {"Permission denied", "login",
     "$H accepts no key of yours, and a client cannot type a password.",
     "ssh-copy-id $H; a key with a passphrase must be in the agent (ssh-add)."},
    {"Too many authentication failures", "login", "$H turned the keys down before the right one.",
     "Name the key in ~/.ssh/config: IdentityFile and IdentitiesOnly yes."},
    {"Could not resolve hostname", "host", "There is no host '$H'.",
     "Is the name spelled right, or in ~/.ssh/config, or behind a VPN?"},
    {"Connection refused", "host", "Nothing listens for ssh on $H.",
     "Is sshd running there, and is it this port?"},
    {"timed out", "host", "$H does not answer.", "Is the machine on, and the VPN?"},
    {"No route to host", "host", "There is no way to $H.", "Is the machine on, and the VPN?"},
};

constexpr Sign kProgramSigns[] = {
    {"--data-dir ", "data-dir", "The folder of --data-dir cannot be used.",
     "Name a folder that exists on the machine where the server runs."},
    {"is not a directory", "root", "A root is missing there.",
     "Name folders that exist on the machine where the server runs."},
    {"version `GLIBC", "program", "$P was built for a newer system than this.",
     "Build mpnanny on the machine where it runs."},
    {"version `CXXABI", "program", "$P was built for a newer system than this.",
     "Build mpnanny on the machine where it runs."},
    {"error while loading shared libraries", "program", "$P lacks a library there.",
     "Build mpnanny on the machine where it runs."},
    {"Exec format error", "program", "$P was built for another kind of processor.",
     "Build mpnanny on the machine where it runs."},
};

// True if somebody said that this very program is missing: wrappers and login shells end with 127
// for what they miss themselves.
bool SaysMissing(const std::string& errors, const std::string& program) {
  for (const std::string_view line : LinesOf(errors)) {
    if (line.find(program) == std::string_view::npos) continue;
    for (const char* said : {"not found", "o such file", "nknown command"}) {
      if (line.find(said) != std::string_view::npos) return true;
    }
  }
  return false;
}

std::string Fill(std::string text, const ServerLaunch& launch) {
  for (const auto& [mark, value] :
       {std::pair<std::string, std::string>{"$H", launch.ssh_host}, {"$P", launch.program}}) {
    for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += value.size()) {
      text.replace(at, mark.size(), value);
    }
  }
  return text;
}

}  // namespace

Check ExplainEnd(const ServerLaunch& launch, int exit_code, const std::string& errors) {
  const std::string words = LastWords(errors);
  const std::string facts =
      " (" +
      (exit_code > 128 && exit_code != 255 ? "signal " + std::to_string(exit_code - 128)
                                           : "exit code " + std::to_string(exit_code)) +
      (words.empty() ? ", nothing on stderr" : ": " + words) + ")";
  const auto explained = [&](const Sign& sign) {
    return Check{CheckStatus::kFailed, sign.name, Fill(sign.means, launch) + facts,
                 Fill(sign.fix, launch)};
  };
  const bool ssh = !launch.ssh_host.empty();
  if (ssh && exit_code == 255) {
    for (const Sign& sign : kSshSigns) {
      if (errors.find(sign.said) != std::string::npos) return explained(sign);
    }
    return {CheckStatus::kFailed, "connection",
            "ssh could not connect to " + launch.ssh_host + facts,
            "Does `" + ShellCommand({"ssh", launch.ssh_host, "true"}) + "` work by hand?"};
  }
  for (const Sign& sign : kProgramSigns) {
    if (errors.find(sign.said) != std::string::npos) return explained(sign);
  }
  if (exit_code == 127 && SaysMissing(errors, launch.program)) {
    return explained({"", "program", "There is no $P.",
                      ssh ? "Build mpnanny on $H, or say where it lies there: --program PATH."
                          : "Build mpnanny."});
  }
  if (exit_code == 126) {
    return explained({"", "program", "$P cannot be executed.",
                      "Is it a program for that machine, with its x bits set, on a file system "
                      "that allows it?"});
  }
  if (exit_code == 127) {
    return explained({"", "command", "What starts $P lacks a program of its own.",
                      ssh ? "Look at the login shell's files on $H: which command is missing?"
                          : "Which command is missing?"});
  }
  return {CheckStatus::kFailed, "server", "The server ended before it answered" + facts,
          ssh ? "What does it say when you start it over there by hand?"
              : "Start `" + ShellCommand(launch.words) + "` by hand."};
}

}  // namespace mpnanny
