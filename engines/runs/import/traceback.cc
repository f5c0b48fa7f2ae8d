#include "engines/runs/import/traceback.h"

#include <algorithm>
#include <cctype>

namespace mpnanny::imports {
namespace {

constexpr std::string_view kBegins = "Traceback (most recent call last):";
// A bar of progress is printed once more when it is closed.
constexpr int64_t kLastWords = 2;
constexpr size_t kMostText = 300;

// `  File "train.py", line 12, in main` -> "train.py:12"; "" for every other line.
std::string PlaceOf(std::string_view line) {
  const size_t start = line.find("File \"");
  if (start == std::string_view::npos || line.find_first_not_of(' ') != start) return "";
  const size_t name = start + 6;
  const size_t end = line.find("\", line ", name);
  if (end == std::string_view::npos) return "";
  const size_t digits = end + 8;
  size_t after = digits;
  while (after < line.size() && std::isdigit(static_cast<unsigned char>(line[after]))) ++after;
  if (after == digits) return "";
  return std::string(line.substr(name, end - name)) + ":" +
         std::string(line.substr(digits, after - digits));
}

bool IsInstalled(std::string_view place) {
  for (const char* folder : {"site-packages", "dist-packages", "lib/python", "lib\\python"}) {
    if (place.find(folder) != std::string_view::npos) return true;
  }
  return place.starts_with("<");
}

// "torch.cuda.OutOfMemoryError: CUDA out of memory" begins with the exception's name.
std::string_view NameOf(std::string_view line) {
  size_t end = 0;
  while (end < line.size() && (std::isalnum(static_cast<unsigned char>(line[end])) ||
                               line[end] == '_' || line[end] == '.')) {
    ++end;
  }
  const bool closed = end == line.size() || line[end] == ':';
  if (end == 0 || !closed || std::isdigit(static_cast<unsigned char>(line[0]))) return {};
  return line.substr(0, end);
}

bool EndsTraining(std::string_view error) {
  for (const char* other :
       {"KeyboardInterrupt", "SystemExit", "CalledProcessError", "ChildFailedError",
        "ProcessRaisedException", "ProcessExitedException", "SignalException", "BrokenPipeError"}) {
    if (error.ends_with(other)) return false;
  }
  return true;
}

// torchrun's report of a child, Slurm's and the kernel's words, a shell's.
bool TellsOfKill(std::string_view line) {
  for (const char* words : {"Signal 9 (SIGKILL)", "(exitcode: -9)", "oom_kill event", "OOM Killed",
                            "OutOfMemoryKiller", "Out of memory: Killed process"}) {
    if (line.find(words) != std::string_view::npos) return true;
  }
  return line == "Killed";
}

}  // namespace

void TracebackReader::Add(std::string_view line, int64_t number, bool has_loss) {
  if (const size_t at = line.find(kBegins); at != std::string_view::npos) {
    prefix_ = line.substr(0, at);
    inside_ = true;
    source_.clear();
    return;
  }
  if (has_loss && found_) ++losses_since_;
  if (TellsOfKill(line) && (!found_ || losses_since_ > kLastWords)) {
    found_ = PrintedError{"SIGKILL", std::string(line.substr(0, kMostText)), "", number};
    losses_since_ = 0;
    return;
  }
  if (!inside_ || !line.starts_with(prefix_)) return;
  line.remove_prefix(prefix_.size());
  if (line.empty() || line[0] == ' ' || line[0] == '\t') {
    const std::string place = PlaceOf(line);
    if (!place.empty() && !IsInstalled(place)) source_ = place;
    return;
  }
  const std::string_view name = NameOf(line);
  if (name.empty()) return;
  inside_ = false;
  if (!EndsTraining(name)) return;
  if (found_ && losses_since_ <= kLastWords) return;  // what followed from it
  std::string_view text = line.substr(std::min(line.size(), name.size() + 1));
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(' ')));
  found_ = PrintedError{std::string(name), std::string(text.substr(0, kMostText)), source_,
                        number};
  losses_since_ = 0;
}

std::optional<PrintedError> TracebackReader::Take() const {
  return losses_since_ <= kLastWords ? found_ : std::nullopt;
}

}  // namespace mpnanny::imports
