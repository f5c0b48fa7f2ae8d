#include <windows.h>

#include <atomic>

#include "base/os_file_view.h"
#include "base/os_windows_text.h"
#include "base/text.h"

namespace mpnanny {
namespace {

std::atomic<size_t> g_views{0};

struct Guard {
  HANDLE handle;
  ~Guard() {
    if (handle != nullptr && handle != INVALID_HANDLE_VALUE) CloseHandle(handle);
  }
};

}  // namespace

// Windows lets nobody cut a file short while it is mapped, so there is nothing to catch.
Result<FileView> FileView::Open(const std::string& path) {
  const std::string name = EscapeControl(path, 500);
  const Guard file{CreateFileW(ToWide(path).c_str(), GENERIC_READ,
                               FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr,
                               OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr)};
  if (file.handle == INVALID_HANDLE_VALUE) {
    const DWORD code = GetLastError();
    if (code == ERROR_FILE_NOT_FOUND || code == ERROR_PATH_NOT_FOUND) {
      return NotFound(name + ": there is no such file.");
    }
    return InvalidInput(name + ": cannot be opened: " + WindowsErrorText(code) + ".");
  }
  LARGE_INTEGER size{};
  if (GetFileType(file.handle) != FILE_TYPE_DISK || !GetFileSizeEx(file.handle, &size)) {
    return InvalidInput(name + ": not a regular file.");
  }
  if (size.QuadPart == 0) return FileView(nullptr, 0, -1);
  if (g_views.fetch_add(1) >= kMostViews) {
    g_views.fetch_sub(1);
    return Unavailable("Too many files are being read at once.", "Try again.");
  }
  const Guard mapping{CreateFileMappingW(file.handle, nullptr, PAGE_READONLY, 0, 0, nullptr)};
  const void* const data =
      mapping.handle == nullptr ? nullptr : MapViewOfFile(mapping.handle, FILE_MAP_READ, 0, 0, 0);
  if (data == nullptr) {
    const DWORD code = GetLastError();
    g_views.fetch_sub(1);
    return InvalidInput(name + ": cannot be mapped: " + WindowsErrorText(code) + ".");
  }
  return FileView(static_cast<const uint8_t*>(data), static_cast<size_t>(size.QuadPart), 0);
}

bool FileView::changed() const { return false; }

void FileView::Release() {
  if (slot_ < 0) return;
  UnmapViewOfFile(data_);
  g_views.fetch_sub(1);
  slot_ = -1;
}

}  // namespace mpnanny
