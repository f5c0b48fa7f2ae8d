#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/new_file.h"
#include "base/text.h"

namespace mpnanny {

Result<NewFile> NewFile::Create(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
  if (fd >= 0) return NewFile(fd, path);
  const std::string shown = EscapeControl(path);
  if (errno == EEXIST) {
    return InvalidInput(shown + " exists already, and is not overwritten.",
                        "Name a new file, or move that one away.");
  }
  return InvalidInput(shown + " cannot be made: " + std::strerror(errno) + ".");
}

NewFile::NewFile(NewFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

NewFile& NewFile::operator=(NewFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

NewFile::~NewFile() {
  if (fd_ >= 0) close(fd_);
}

Result<void> NewFile::Append(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd_, text.data(), text.size());
    if (n > 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (n == 0 || errno != EINTR) {
      return Unavailable(EscapeControl(path_) + " cannot be written: " + std::strerror(errno) +
                         ".");
    }
  }
  return {};
}

Result<void> NewFile::Sync() {
  // Some file systems cannot (EINVAL); that is no reason not to write there.
  if (fsync(fd_) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS) return {};
  return Unavailable(EscapeControl(path_) + " cannot be written: " + std::strerror(errno) + ".");
}

}  // namespace mpnanny
