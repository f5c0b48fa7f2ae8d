#include <fcntl.h>
#include <io.h>
#include <windows.h>

#include <algorithm>

#include "base/descriptors.h"
#include "base/os_windows_io.h"
#include "base/os_windows_text.h"

namespace mpnanny {
namespace {

constexpr DWORD kChunk = 64u << 10;
constexpr DWORD kStoppedGraceMs = 200;

// A copy of a standard stream that no child inherits; -1 if it is closed.
int Copy(DWORD which) {
  const HANDLE given = GetStdHandle(which);
  HANDLE copy = nullptr;
  if (given == nullptr || given == INVALID_HANDLE_VALUE ||
      !DuplicateHandle(GetCurrentProcess(), given, GetCurrentProcess(), &copy, 0, FALSE,
                       DUPLICATE_SAME_ACCESS)) {
    return -1;
  }
  return NumberOf(copy);
}

// Points the C library's `fd`, and with it the system's standard handle, at nothing.
bool Silence(int fd, int flags) {
  const int null = _open("NUL", flags | _O_BINARY);
  if (null == fd) return true;
  const bool done = null >= 0 && _dup2(null, fd) == 0;
  if (null >= 0) _close(null);
  return done;
}

}  // namespace

Result<ProtocolStreams> TakeStandardStreams() {
  ProtocolStreams streams;
  streams.in = Copy(STD_INPUT_HANDLE);
  streams.out = Copy(STD_OUTPUT_HANDLE);
  if (streams.in == -1 || streams.out == -1) {
    return Unavailable("stdin or stdout is closed.",
                       "An MCP client starts the server with both as pipes.");
  }
  const bool has_log = _get_osfhandle(2) >= 0 || Silence(2, _O_WRONLY);
  if (!has_log || !Silence(0, _O_RDONLY) || _dup2(2, 1) != 0) {
    return Unavailable("Cannot redirect the standard streams.");
  }
  return streams;
}

ReadOutcome ReadSome(int fd, char* buffer, size_t capacity, const StopEvent& stop) {
  const HANDLE from = HandleOf(fd);
  const bool is_pipe = GetFileType(from) == FILE_TYPE_PIPE;
  const DWORD most = static_cast<DWORD>(std::min<size_t>(capacity, 1u << 30));
  while (true) {
    DWORD taken = 0;
    DWORD failure = ERROR_SUCCESS;
    {
      const CancelledIo until_stopped(HandleOf(stop.fd()), INFINITE, 0);
      if (!ReadFile(from, buffer, most, &taken, nullptr)) failure = GetLastError();
    }
    if (stop.requested()) return {ReadStatus::kStopped, 0};
    if (failure == ERROR_SUCCESS && taken > 0) return {ReadStatus::kData, taken};
    // A peer may write nothing into a pipe; its end is ERROR_BROKEN_PIPE.
    if (failure == ERROR_SUCCESS && is_pipe) continue;
    if (failure != ERROR_OPERATION_ABORTED) return {ReadStatus::kEnd, 0};
  }
}

bool WriteWhole(int fd, std::string_view bytes, const StopEvent& stop) {
  while (!bytes.empty()) {
    DWORD written = 0;
    const DWORD size = static_cast<DWORD>(std::min<size_t>(bytes.size(), kChunk));
    const CancelledIo until_stopped(HandleOf(stop.fd()), INFINITE, kStoppedGraceMs);
    if (!WriteFile(HandleOf(fd), bytes.data(), size, &written, nullptr)) return false;
    bytes.remove_prefix(written);
  }
  return true;
}

}  // namespace mpnanny
