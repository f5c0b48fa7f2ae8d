#include <windows.h>

#include "base/os_windows_text.h"
#include "base/process_info.h"

namespace mpnanny {
namespace {

constexpr double kStartSlack = 5;  // seconds: clocks are set

// Windows counts in 100 ns since 1601.
double UnixSeconds(const FILETIME& time) {
  const uint64_t ticks = static_cast<uint64_t>(time.dwHighDateTime) << 32 | time.dwLowDateTime;
  return static_cast<double>(ticks) / 1e7 - 11644473600.0;
}

}  // namespace

std::string HostName() {
  wchar_t name[256];
  DWORD size = 256;
  return GetComputerNameExW(ComputerNameDnsHostname, name, &size) ? FromWide({name, size}) : "";
}

bool ProcessRuns(int64_t pid, double started_by) {
  if (pid <= 0 || pid > UINT32_MAX) return false;
  const HANDLE process =
      OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, static_cast<DWORD>(pid));
  // Another user's may not be asked.
  if (process == nullptr) return GetLastError() == ERROR_ACCESS_DENIED;
  DWORD code = 0;
  bool runs = !GetExitCodeProcess(process, &code) || code == STILL_ACTIVE;
  FILETIME started{}, ended{}, kernel{}, user{};
  if (runs && GetProcessTimes(process, &started, &ended, &kernel, &user)) {
    runs = UnixSeconds(started) <= started_by + kStartSlack;
  }
  CloseHandle(process);
  return runs;
}

int64_t CurrentProcess() { return GetCurrentProcessId(); }

}  // namespace mpnanny
