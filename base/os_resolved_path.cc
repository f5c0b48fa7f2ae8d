#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/os_open.h"
#include "base/resolved_path.h"
#include "base/text.h"

namespace mpnanny {
namespace {

#ifdef O_PATH
constexpr int kOnTheWay = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
#else
constexpr int kOnTheWay = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
#endif

FolderEntry::Kind KindOf(int folder, const dirent& entry) {
  using Kind = FolderEntry::Kind;
  switch (entry.d_type) {
    case DT_REG:
      return Kind::kFile;
    case DT_DIR:
      return Kind::kFolder;
    case DT_LNK:
      return Kind::kLink;
    case DT_UNKNOWN:
      break;
    default:
      return Kind::kOther;
  }
  struct stat info {};  // some file systems do not tell
  if (fstatat(folder, entry.d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) return Kind::kOther;
  return S_ISREG(info.st_mode)   ? Kind::kFile
         : S_ISDIR(info.st_mode) ? Kind::kFolder
         : S_ISLNK(info.st_mode) ? Kind::kLink
                                 : Kind::kOther;
}

}  // namespace

Descriptor OpenWithoutLinks(const std::string& path, int flags) {
  Descriptor at(path.starts_with('/') ? open("/", kOnTheWay) : AT_FDCWD);
  for (size_t begin = 0; begin < path.size();) {
    size_t end = path.find('/', begin);
    if (end == std::string::npos) end = path.size();
    const std::string part = path.substr(begin, end - begin);
    begin = path.find_first_not_of('/', end);
    if (begin == std::string::npos) begin = path.size();
    if (part.empty() || part == ".") continue;
    const bool last = begin == path.size();
    if (part == "..") errno = ELOOP;  // no resolved path holds one: it might climb out
    const int next = part == ".." ? -1
                                  : openat(at.get(), part.c_str(),
                                           last ? flags | O_NOFOLLOW | O_CLOEXEC : kOnTheWay);
    if (next < 0) {
      // Of a link in the place of a folder, "not a directory" is said.
      struct stat info {};
      const int code = errno;
      const bool link = code == ENOTDIR &&
                        fstatat(at.get(), part.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                        S_ISLNK(info.st_mode);
      at.Reset(-1);
      errno = link ? ELOOP : code;
      return at;
    }
    at.Reset(next);
  }
  // "/" itself, or nothing: what was opened on the way has other flags.
  if (path.find_first_not_of("/.") == std::string::npos)
    return Descriptor(open(path.c_str(), flags));
  return at;
}

Error OpenFailure(const std::string& shown, int code) {
  if (code == ELOOP) {
    return InvalidInput(shown + ": a symbolic link lies on the way, which is not followed.",
                        "Name the file that the link leads to.");
  }
  const std::string why = shown + ": " + std::strerror(code) + ".";
  return code == ENOENT ? NotFound(why) : InvalidInput(why);
}

Result<std::string> ReadResolvedFile(const std::string& path, uint64_t max_bytes) {
  const Descriptor file = OpenWithoutLinks(path, O_RDONLY | O_NONBLOCK);
  if (file.get() < 0) return OpenFailure(EscapeControl(path), errno);
  return ReadWhole(file.get(), EscapeControl(path), max_bytes);
}

struct ResolvedFile::Opened {
  Descriptor file;
  uint64_t bytes = 0;
};

Result<ResolvedFile> ResolvedFile::Open(const std::string& path) {
  std::unique_ptr<Opened> opened(new Opened{OpenWithoutLinks(path, O_RDONLY | O_NONBLOCK), 0});
  const std::string shown = EscapeControl(path);
  if (opened->file.get() < 0) return OpenFailure(shown, errno);
  struct stat info {};
  if (fstat(opened->file.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return InvalidInput(shown + ": not a regular file.");
  opened->bytes = static_cast<uint64_t>(info.st_size);
  return ResolvedFile(std::move(opened));
}

size_t ResolvedFile::Read(char* to, size_t count) {
  size_t filled = 0;
  while (filled < count) {
    const ssize_t n = read(opened_->file.get(), to + filled, count - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    filled += static_cast<size_t>(n);
  }
  return filled;
}

void ResolvedFile::Seek(uint64_t position) {
  lseek(opened_->file.get(), static_cast<off_t>(position), SEEK_SET);
}

uint64_t ResolvedFile::bytes() const { return opened_->bytes; }

ResolvedFile::ResolvedFile(std::unique_ptr<Opened> opened) : opened_(std::move(opened)) {}
ResolvedFile::ResolvedFile(ResolvedFile&&) noexcept = default;
ResolvedFile& ResolvedFile::operator=(ResolvedFile&&) noexcept = default;
ResolvedFile::~ResolvedFile() = default;

Result<std::vector<FolderEntry>> ListResolvedFolder(const std::string& path, size_t most) {
  Descriptor folder = OpenWithoutLinks(path, O_RDONLY | O_DIRECTORY);
  if (folder.get() < 0) return OpenFailure(EscapeControl(path), errno);
  struct Close {
    void operator()(DIR* stream) const { closedir(stream); }
  };
  const std::unique_ptr<DIR, Close> stream(fdopendir(folder.get()));
  if (!stream) return OpenFailure(EscapeControl(path), errno);
  folder.Release();  // the stream owns it
  std::vector<FolderEntry> entries;
  while (entries.size() < most) {
    const dirent* const entry = readdir(stream.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    entries.push_back({std::string(name), KindOf(dirfd(stream.get()), *entry)});
  }
  return entries;
}

Result<ResolvedFolder> ResolvedFolder::Open(const std::string& path) {
  Descriptor folder = OpenWithoutLinks(path, kOnTheWay);
  if (folder.get() < 0) return OpenFailure(EscapeControl(path), errno);
  std::string prefix = path.ends_with('/') ? path : path + "/";
#ifdef __linux__
  const std::string held = "/proc/self/fd/" + std::to_string(folder.get()) + "/";
  if (access(held.c_str(), F_OK) == 0) prefix = held;
#endif
  return ResolvedFolder(folder.Release(), std::move(prefix));
}

ResolvedFolder::ResolvedFolder(ResolvedFolder&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), prefix_(std::move(other.prefix_)) {}

ResolvedFolder& ResolvedFolder::operator=(ResolvedFolder&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(prefix_, other.prefix_);
  return *this;
}

ResolvedFolder::~ResolvedFolder() {
  if (fd_ >= 0) close(fd_);
}

std::string ResolvedFolder::PathOf(std::string_view entry) const {
  return prefix_ + std::string(entry);
}

}  // namespace mpnanny
