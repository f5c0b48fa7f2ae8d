#include <fcntl.h>
#include <io.h>
#include <windows.h>

#include <algorithm>
#include <cstdlib>

#include "base/os_windows_text.h"
#include "base/program.h"

namespace mpnanny {
namespace {

bool IsConsole(DWORD which) {
  DWORD mode = 0;
  return GetConsoleMode(GetStdHandle(which), &mode) != 0;
}

// Consoles before Windows 10 know no escape sequence.
bool KnowsEscapes(DWORD which) {
  const HANDLE console = GetStdHandle(which);
  DWORD mode = 0;
  return GetConsoleMode(console, &mode) != 0 &&
         SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING) != 0;
}

}  // namespace

// The same bytes as on other systems: no CR before LF, no end of text at Ctrl+Z, and UTF-8 where a
// console shows them.
void PrepareStandardStreams() {
  for (const int fd : {0, 1, 2}) {
    if (fd > 0 || !IsConsole(STD_INPUT_HANDLE)) _setmode(fd, _O_BINARY);
  }
  if (IsConsole(STD_OUTPUT_HANDLE) || IsConsole(STD_ERROR_HANDLE)) SetConsoleOutputCP(CP_UTF8);
}

std::string ProgramPath() {
  std::wstring path(32768, L'\0');  // the longest there is
  path.resize(GetModuleFileNameW(nullptr, path.data(), static_cast<DWORD>(path.size())));
  std::string text = FromWide(path);
  std::replace(text.begin(), text.end(), '\\', '/');
  return text;
}

bool StdinIsTerminal() { return IsConsole(STD_INPUT_HANDLE); }

bool StdoutIsTerminal() { return KnowsEscapes(STD_OUTPUT_HANDLE); }

bool StderrIsTerminal() { return KnowsEscapes(STD_ERROR_HANDLE); }

bool StdoutTakesColour() {
  const char* const none = std::getenv("NO_COLOR");
  return (none == nullptr || *none == '\0') && KnowsEscapes(STD_OUTPUT_HANDLE);
}

Error ReplaceProgram(const std::vector<std::string>& /*words*/,
                     const std::vector<std::pair<std::string, std::string>>& /*variables*/) {
  return Unavailable("In Windows a program cannot become another one.");
}

}  // namespace mpnanny
