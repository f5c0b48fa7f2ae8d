#include <aclapi.h>
#include <windows.h>

#include <filesystem>

#include "base/os_file_system.h"
#include "base/os_windows_text.h"

namespace mpnanny {
namespace {

// Windows counts in 100 ns since 1601.
int64_t UnixNanoseconds(int64_t ticks) { return (ticks - 116444736000000000) * 100; }

}  // namespace

bool OnNetworkFileSystem(const std::string& path) {
  std::error_code ec;
  const std::wstring whole = std::filesystem::absolute(path, ec).wstring();
  if (ec) return false;
  wchar_t volume[MAX_PATH + 1] = {};
  if (!GetVolumePathNameW(whole.c_str(), volume, MAX_PATH + 1)) return false;
  return GetDriveTypeW(volume) == DRIVE_REMOTE;
}

std::optional<FileStamp> StampOf(const std::string& path) {
  const HANDLE file = CreateFileW(ToWide(path).c_str(), FILE_READ_ATTRIBUTES,
                                  FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr,
                                  OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr);
  if (file == INVALID_HANDLE_VALUE) return std::nullopt;
  BY_HANDLE_FILE_INFORMATION which{};
  FILE_BASIC_INFO times{};
  const bool told = GetFileInformationByHandle(file, &which) &&
                    GetFileInformationByHandleEx(file, FileBasicInfo, &times, sizeof(times));
  CloseHandle(file);
  if (!told) return std::nullopt;
  const auto whole = [](DWORD high, DWORD low) { return static_cast<uint64_t>(high) << 32 | low; };
  return FileStamp{which.dwVolumeSerialNumber, whole(which.nFileIndexHigh, which.nFileIndexLow),
                   static_cast<int64_t>(whole(which.nFileSizeHigh, which.nFileSizeLow)),
                   UnixNanoseconds(times.ChangeTime.QuadPart)};
}

bool OpenToOthers(const std::string& path) {
  PACL list = nullptr;
  PSECURITY_DESCRIPTOR whole = nullptr;
  if (GetNamedSecurityInfoW(ToWide(path).c_str(), SE_FILE_OBJECT, DACL_SECURITY_INFORMATION,
                            nullptr, nullptr, &list, nullptr, &whole) != ERROR_SUCCESS) {
    return false;
  }
  bool open = list == nullptr;  // no list: everybody may do everything
  for (const WELL_KNOWN_SID_TYPE group :
       {WinWorldSid, WinAuthenticatedUserSid, WinBuiltinUsersSid}) {
    BYTE sid[SECURITY_MAX_SID_SIZE];
    DWORD size = sizeof(sid);
    if (open || !CreateWellKnownSid(group, nullptr, sid, &size)) continue;
    TRUSTEE_W trustee{};
    BuildTrusteeWithSidW(&trustee, sid);
    ACCESS_MASK rights = 0;
    open = GetEffectiveRightsFromAclW(list, &trustee, &rights) == ERROR_SUCCESS &&
           (rights & FILE_READ_DATA) != 0;
  }
  LocalFree(whole);
  return open;
}

}  // namespace mpnanny
