// mpnanny-sandbox: runs a program that may be hostile, within limits, and ends it with all that it
// started. It is started by mpnanny for each call that runs code of the user's.
//
//   mpnanny-sandbox [--allow-weaker] [--allow-gpu] --seconds 60 --memory-mb 8192 --processes 64
//   --file-mb 1024 --writable DIR -- COMMAND …
//   mpnanny-sandbox --check --writable DIR        runs nothing: what this machine lacks for that
//
// By hand, to find out what a GPU's driver cannot bear: `--allow-weaker --without FENCE` leaves one
// part of the confinement out (Fence in base/confinement.h). mpnanny never passes it, and who can
// start this program can start the command without it.
//
// What the command writes to its descriptor 3 comes on our standard output, each line with a space
// in front; its standard output and error are our standard error. When it has ended a last line
// without one is written to standard output, which nobody but us has (base/job_relay.h):
//   {"end": {"exit_code": 0, "exceeded": "", "missing": [], "refused": false}}, or
//   {"end": {"error": "…"}}
// `missing`: words of base/confinement.h. With any of them nothing is run but under --allow-weaker;
// "memory" is no such reason under --allow-gpu. `without`: what was left out.
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/confinement.h"
#include "base/job_relay.h"
#include "base/json.h"

namespace mpnanny {
namespace {

bool ParseNumber(std::string_view text, uint64_t& number) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

// False where the arguments make no sense. `command` is empty for --check.
bool ParseArguments(int argc, char** argv, Confinement& limits, std::vector<std::string>& command) {
  int at = 1;
  const auto take = [&](std::string_view flag) {
    const bool given = at < argc && argv[at] == flag;
    if (given) ++at;
    return given;
  };
  const bool check = take("--check");
  limits.allow_weaker = take("--allow-weaker");
  limits.gpu = take("--allow-gpu");
  for (; at + 1 < argc && std::string_view(argv[at]) != "--"; at += 2) {
    const std::string_view name = argv[at];
    uint64_t number = 0;
    if (name == "--writable") {
      limits.writable = argv[at + 1];
      continue;
    }
    if (name == "--without") {
      limits.without = FindNamed<Fence>(argv[at + 1]);
      if (!limits.without || !limits.allow_weaker) return false;
      continue;
    }
    if (!ParseNumber(argv[at + 1], number)) return false;
    if (name == "--seconds") {
      limits.wall = std::chrono::seconds(number);
    } else if (name == "--memory-mb") {
      limits.memory_bytes = number << 20;
    } else if (name == "--processes") {
      limits.processes = static_cast<int>(number);
    } else if (name == "--file-mb") {
      limits.file_bytes = number << 20;
    } else {
      return false;
    }
  }
  for (++at; at < argc; ++at) command.emplace_back(argv[at]);
  return command.empty() == check && !limits.writable.empty();
}

int Main(int argc, char** argv) {
  Confinement limits;
  std::vector<std::string> command;
  if (!ParseArguments(argc, argv, limits, command)) {
    std::fputs("mpnanny-sandbox is started by mpnanny and not by hand.\n", stderr);
    return 2;
  }
  WipeEnvironment();  // here, too: this process lives as long as the command
  constexpr int kStandardOutput = 1;
  const bool read =
      RelayJob(kStandardOutput, StandardStreams::kOfTheJob, [&](int /*told*/) -> Json {
        const auto end = command.empty() ? RunConfinedCall(limits, -1, [] { return 0; })
                                         : RunConfined(limits, command);
        if (!end) return {{"error", end.error().Text()}};
        Json told = EndJson(*end);
        if (limits.without) told["without"] = NameOf(*limits.without);
        return told;
      });
  return read ? 0 : 1;
}

}  // namespace
}  // namespace mpnanny

int main(int argc, char** argv) { return mpnanny::Main(argc, argv); }
