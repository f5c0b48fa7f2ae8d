// A file of fixed size, mapped writable and shared: what is stored survives the death of the
// process.
//
// Owns the mapping and the descriptor; movable, not copyable. One process holds the file's lock at
// a time (a POSIX record lock: a forked child does not inherit it, and it is gone when the process
// is, however it ended). Not synchronised: the owner's threads must agree on who writes.
#ifndef MPNANNY_BASE_OS_MAPPED_FILE_H_
#define MPNANNY_BASE_OS_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace mpnanny {

class MappedFile {
 public:
  // Opens or creates `path` (mode 0600), locks it, and maps `bytes` of it; a shorter file grows.
  // All of its blocks are reserved, so that a full disk is an error here and not a SIGBUS later.
  // Unavailable: another process holds the lock, or the place cannot be written.
  static Result<MappedFile> OpenLocked(const std::string& path, size_t bytes);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  uint8_t* data() { return data_; }
  size_t size() const { return size_; }
  bool was_new() const { return was_new_; }  // the file did not have `bytes` before

 private:
  MappedFile(int fd, uint8_t* data, size_t size, bool was_new)
      : fd_(fd), data_(data), size_(size), was_new_(was_new) {}
  void Release();

  int fd_ = -1;
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  bool was_new_ = false;
};

// Creates the missing folders above `path`, then `path` itself with mode 0600 if it is missing.
// Unavailable with the reason if that fails. A file that exists is left alone. `in_place`: where
// the file system copies on write, not this file: it will be mapped, and a store into a mapped file
// that finds the disk full ends the process.
Result<void> CreatePrivateFile(const std::string& path, bool in_place = false);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_OS_MAPPED_FILE_H_
