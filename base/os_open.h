// What the POSIX files of base/ open files with; nobody else includes this.
//
// A Descriptor owns its number and closes it; movable. Functions without state.
#ifndef MPNANNY_BASE_OS_OPEN_H_
#define MPNANNY_BASE_OS_OPEN_H_

#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"

namespace mpnanny {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    Reset(other.Release());
    return *this;
  }
  ~Descriptor() { Reset(-1); }

  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

// Opens `path`, for reading, without following a symbolic link in any part of it; O_CLOEXEC is
// added. -1 with errno: ELOOP for a link, or for "..", which no resolved path holds.
Descriptor OpenWithoutLinks(const std::string& path, int flags);

// What errno means where OpenWithoutLinks() could not open it.
Error OpenFailure(const std::string& shown, int code);

// ReadFile() of an open file.
Result<std::string> ReadWhole(int fd, const std::string& shown, uint64_t max_bytes);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_OS_OPEN_H_
