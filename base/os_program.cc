#include <unistd.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/program.h"
#include "base/text.h"

namespace mpnanny {
namespace {

// Terminals that know no escape sequence say so.
bool KnowsEscapes() {
  const char* const term = std::getenv("TERM");
  return term != nullptr && std::string_view(term) != "dumb";
}

}  // namespace

void PrepareStandardStreams() {}

std::string ProgramPath() {
  std::error_code error;
#ifdef __APPLE__
  std::string given(4096, '\0');
  auto size = static_cast<uint32_t>(given.size());
  if (_NSGetExecutablePath(given.data(), &size) != 0) return "";
  const std::filesystem::path path = std::filesystem::canonical(given.c_str(), error);
#else
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
#endif
  return error ? std::string() : path.generic_string();
}

bool StdinIsTerminal() { return isatty(STDIN_FILENO) == 1; }

bool StdoutIsTerminal() { return isatty(STDOUT_FILENO) == 1; }

bool StderrIsTerminal() { return KnowsEscapes() && isatty(STDERR_FILENO) == 1; }

bool StdoutTakesColour() {
  const char* const none = std::getenv("NO_COLOR");
  const bool wanted = none == nullptr || *none == '\0';
  return wanted && KnowsEscapes() && isatty(STDOUT_FILENO) == 1;
}

Error ReplaceProgram(const std::vector<std::string>& words,
                     const std::vector<std::pair<std::string, std::string>>& variables) {
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  std::vector<std::string> copies = words;
  std::vector<char*> argv;
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  const int failure = errno;
  const std::string text = EscapeControl(words.front(), 300) + ": " + std::strerror(failure) + ".";
  return failure == ENOENT ? NotFound(text, "Is it in PATH?") : InvalidInput(text);
}

}  // namespace mpnanny
