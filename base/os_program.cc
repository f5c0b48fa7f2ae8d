#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/program.h"

namespace mpnanny {

std::string ProgramPath() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string() : path.string();
}

bool StdinIsTerminal() { return isatty(STDIN_FILENO) == 1; }

bool StdoutTakesColour() {
  const char* const none = std::getenv("NO_COLOR");
  const char* const term = std::getenv("TERM");
  const bool wanted = none == nullptr || *none == '\0';
  const bool able = term != nullptr && std::string_view(term) != "dumb";
  return wanted && able && isatty(STDOUT_FILENO) == 1;
}

}  // namespace mpnanny
