#include <windows.h>

#include <algorithm>
#include <utility>

#include "base/new_file.h"
#include "base/os_windows_text.h"
#include "base/text.h"

namespace mpnanny {

// Who may read it is what its folder says: a user's own folders are closed to others.
Result<NewFile> NewFile::Create(const std::string& path) {
  const HANDLE file = CreateFileW(ToWide(path).c_str(), GENERIC_WRITE, FILE_SHARE_READ, nullptr,
                                  CREATE_NEW, FILE_ATTRIBUTE_NORMAL, nullptr);
  if (file != INVALID_HANDLE_VALUE) return NewFile(NumberOf(file), path);
  const DWORD code = GetLastError();
  const std::string shown = EscapeControl(path);
  if (code == ERROR_FILE_EXISTS || code == ERROR_ALREADY_EXISTS) {
    return InvalidInput(shown + " exists already, and is not overwritten.",
                        "Name a new file, or move that one away.");
  }
  return InvalidInput(shown + " cannot be made: " + WindowsErrorText(code) + ".");
}

NewFile::NewFile(NewFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

NewFile& NewFile::operator=(NewFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

NewFile::~NewFile() {
  if (fd_ != -1) CloseHandle(HandleOf(fd_));
}

Result<void> NewFile::Append(std::string_view text) {
  while (!text.empty()) {
    DWORD n = 0;
    const auto size = static_cast<DWORD>(std::min<size_t>(text.size(), 1u << 30));
    if (!WriteFile(HandleOf(fd_), text.data(), size, &n, nullptr) || n == 0) {
      return Unavailable(EscapeControl(path_) +
                         " cannot be written: " + WindowsErrorText(GetLastError()) + ".");
    }
    text.remove_prefix(n);
  }
  return {};
}

Result<void> NewFile::Sync() {
  // Some file systems cannot; that is no reason not to write there.
  if (FlushFileBuffers(HandleOf(fd_))) return {};
  const DWORD code = GetLastError();
  if (code == ERROR_INVALID_FUNCTION || code == ERROR_NOT_SUPPORTED) return {};
  return Unavailable(EscapeControl(path_) + " cannot be written: " + WindowsErrorText(code) + ".");
}

}  // namespace mpnanny
