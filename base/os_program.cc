#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "base/program.h"

namespace mpnanny {

std::string ProgramPath() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string() : path.string();
}

bool StdinIsTerminal() { return isatty(STDIN_FILENO) == 1; }

}  // namespace mpnanny
