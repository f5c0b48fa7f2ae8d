#include <windows.h>

#include <algorithm>

#include "base/files.h"
#include "base/os_windows_text.h"
#include "base/text.h"

namespace mpnanny {

Result<std::string> ReadFile(const std::string& path, uint64_t max_bytes) {
  const std::string shown = EscapeControl(path);
  // Others may go on writing it, rename it and take it away.
  const HANDLE file = CreateFileW(ToWide(path).c_str(), GENERIC_READ,
                                  FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr,
                                  OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr);
  if (file == INVALID_HANDLE_VALUE) {
    const DWORD code = GetLastError();
    const DWORD kind = GetFileAttributesW(ToWide(path).c_str());
    if (kind != INVALID_FILE_ATTRIBUTES && (kind & FILE_ATTRIBUTE_DIRECTORY) != 0) {
      return InvalidInput(shown + ": not a regular file.");
    }
    const std::string why = shown + ": " + WindowsErrorText(code) + ".";
    return code == ERROR_FILE_NOT_FOUND || code == ERROR_PATH_NOT_FOUND ? NotFound(why)
                                                                        : InvalidInput(why);
  }
  struct Guard {
    HANDLE handle;
    ~Guard() { CloseHandle(handle); }
  } guard{file};
  LARGE_INTEGER size{};
  // A pipe or a device (NUL, COM1) would be waited for.
  if (GetFileType(file) != FILE_TYPE_DISK || !GetFileSizeEx(file, &size)) {
    return InvalidInput(shown + ": not a regular file.");
  }
  const Error too_large =
      InvalidInput(shown + ": larger than " + std::to_string(max_bytes) + " bytes.");
  if (static_cast<uint64_t>(size.QuadPart) > max_bytes) return too_large;
  std::string text(static_cast<size_t>(size.QuadPart), '\0');
  size_t filled = 0;
  while (true) {
    if (filled == text.size()) text.resize(text.size() + 4096);  // the file may have grown
    DWORD n = 0;
    const auto most = static_cast<DWORD>(std::min<size_t>(text.size() - filled, 1u << 30));
    if (!::ReadFile(file, text.data() + filled, most, &n, nullptr)) {
      return InvalidInput(shown + ": " + WindowsErrorText(GetLastError()) + ".");
    }
    if (n == 0) break;
    filled += n;
    if (filled > max_bytes) return too_large;
  }
  text.resize(filled);
  return text;
}

}  // namespace mpnanny
