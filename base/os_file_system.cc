#include "base/os_file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/vfs.h>
#else
#include <sys/mount.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

#ifdef __linux__
constexpr uint32_t kNetworkMagics[] = {
    0x00006969,                          // NFS
    0x0000517b, 0xfe534d42, 0xff534d42,  // SMB, SMB2, CIFS
    0x0bd00bd0,                          // Lustre
    0x47504653,                          // GPFS (Spectrum Scale)
    0x19830326,                          // BeeGFS
    0x00c36400,                          // CephFS
    0x5346414f, 0x6b414653,              // AFS
    0x73757245,                          // Coda
    0x01161970,                          // GFS2
    0x7461636f,                          // OCFS2
    0xaad7aaea,                          // PanFS
    0x20030528,                          // OrangeFS
    0xbeefdead,                          // SNFS
    0x0000564c,                          // NCP
    0x01021997,                          // 9P
    0xbacbacbc, 0x7c7c6673,              // shared folders of VMware, of Parallels
    0x65735546,                          // FUSE
};
#endif

// The path itself or the nearest folder above it that exists.
fs::path Existing(const std::string& path) {
  std::error_code ec;
  fs::path at = fs::absolute(path, ec);
  while (!at.empty() && !fs::exists(at, ec) && at != at.parent_path()) at = at.parent_path();
  return at;
}

}  // namespace

bool OnNetworkFileSystem(const std::string& path) {
#ifdef __linux__
  struct statfs info{};
  if (statfs(Existing(path).c_str(), &info) != 0) return false;
  const auto magic = static_cast<uint32_t>(info.f_type);
  return std::find(std::begin(kNetworkMagics), std::end(kNetworkMagics), magic) !=
         std::end(kNetworkMagics);
#elif defined(__APPLE__)
  struct statfs info{};
  return statfs(Existing(path).c_str(), &info) == 0 && (info.f_flags & MNT_LOCAL) == 0;
#endif
}

std::optional<FileStamp> StampOf(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
#ifdef __APPLE__
  const timespec& changed = info.st_ctimespec;
#else
  const timespec& changed = info.st_ctim;
#endif
  return FileStamp{static_cast<uint64_t>(info.st_dev), static_cast<uint64_t>(info.st_ino),
                   static_cast<int64_t>(info.st_size),
                   int64_t{changed.tv_sec} * 1'000'000'000 + changed.tv_nsec};
}

bool OpenToOthers(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && (info.st_mode & 077) != 0;
}

Result<void> MakePrivateFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0) return {};
  if (errno != EEXIST) {
    return Unavailable(path + ": the folder cannot be made: " + std::strerror(errno) + ".");
  }
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid() ||
      (info.st_mode & 077) != 0) {
    return Unavailable(path + ": exists, and is no folder of this user alone (mode 0700).");
  }
  return {};
}

Result<std::string> PrivateLocalFolder() {
  const char* given = getenv("TMPDIR");
  const std::string name = "mpnanny-" + std::to_string(geteuid());
  Error last = Unavailable("There is no folder for temporary files.");
  for (const std::string& parent :
       {std::string(given != nullptr ? given : ""), std::string("/tmp"), std::string("/var/tmp")}) {
    if (parent.empty() || OnNetworkFileSystem(parent)) continue;
    const std::string folder = (fs::path(parent) / name).generic_string();
    Result<void> made = MakePrivateFolder(folder);
    if (made && access(folder.c_str(), W_OK | X_OK) == 0) return folder;
    last = made ? Unavailable(folder + ": cannot be written.") : made.error();
  }
  return Unavailable("No folder of this machine can be written: " + last.message,
                     "Set TMPDIR to one that is not on a network file system.");
}

}  // namespace mpnanny
