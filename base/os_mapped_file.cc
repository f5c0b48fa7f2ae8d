#include "base/os_mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/fs.h>
#include <sys/ioctl.h>
#endif

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace mpnanny {
namespace {

Error Failed(const std::string& path, const char* what, int code) {
  return Unavailable(path + ": " + what + ": " + std::strerror(code) + ".");
}

// Closes unless released. (A record lock goes with the first close() of the file in the process, so
// one descriptor only.)
struct Guard {
  int fd;
  ~Guard() {
    if (fd >= 0) close(fd);
  }
};

// A file system that copies on write (btrfs) needs room for every store, reserved blocks or not,
// and answers with SIGBUS when it has none. A file without a byte can be told to be written in
// place; where that means nothing, nothing happens.
void WriteInPlace([[maybe_unused]] int fd) {
#ifdef FS_NOCOW_FL
  int flags = 0;
  if (ioctl(fd, FS_IOC_GETFLAGS, &flags) != 0) return;
  flags |= FS_NOCOW_FL;
  (void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
#endif
}

}  // namespace

Result<MappedFile> MappedFile::OpenLocked(const std::string& path, size_t bytes) {
  Guard file{open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  if (file.fd < 0) return Failed(path, "cannot be opened for writing", errno);
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(file.fd, F_SETLK, &lock) != 0) {
    if (errno == EACCES || errno == EAGAIN)
      return Unavailable(path + ": another process is using it.");
    return Failed(path, "cannot be locked", errno);
  }
  struct stat info{};
  if (fstat(file.fd, &info) != 0) return Failed(path, "cannot be examined", errno);
  if (!S_ISREG(info.st_mode)) return Unavailable(path + ": not a regular file.");
  const bool was_new = static_cast<uint64_t>(info.st_size) < bytes;
  if (info.st_size == 0) WriteInPlace(file.fd);
  // Also of a file that has the size: one that was copied may have holes, and a store into a hole
  // kills the process when the disk is full.
  if (const int code = posix_fallocate(file.fd, 0, static_cast<off_t>(bytes)); code != 0)
    return Failed(path, "no room for it", code);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
  if (data == MAP_FAILED) return Failed(path, "cannot be mapped", errno);
#ifdef MADV_DONTFORK
  madvise(data, bytes, MADV_DONTFORK);  // a forked loader worker must not be able to write here
#endif
  return MappedFile(std::exchange(file.fd, -1), static_cast<uint8_t*>(data), bytes, was_new);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      was_new_(other.was_new_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    Release();
    fd_ = std::exchange(other.fd_, -1);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    was_new_ = other.was_new_;
  }
  return *this;
}

MappedFile::~MappedFile() { Release(); }

void MappedFile::Release() {
  if (data_ != nullptr) munmap(data_, size_);
  if (fd_ >= 0) close(fd_);
  data_ = nullptr;
  fd_ = -1;
}

Result<void> CreatePrivateFile(const std::string& path, bool in_place) {
  std::error_code ec;
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, ec);
  if (ec)
    return Unavailable(folder.string() + ": the folder cannot be created: " + ec.message() + ".");
  // O_EXCL: a file that exists is not opened, because closing it would drop the record locks that
  // SQLite may hold on it.
  const Guard file{open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (file.fd < 0 && errno != EEXIST) return Failed(path, "cannot be created", errno);
  if (file.fd >= 0 && in_place) WriteInPlace(file.fd);
  return {};
}

}  // namespace mpnanny
