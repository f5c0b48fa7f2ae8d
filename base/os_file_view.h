// A file of the user's, mapped read-only.
//
// Owns the mapping; movable, not copyable. The bytes may be read from any thread. A file that
// somebody cuts short while it is mapped (a training that saves its checkpoint again) does not end
// the process: what is gone reads as zeros from then on, and changed() says so.
#ifndef MPNANNY_BASE_OS_FILE_VIEW_H_
#define MPNANNY_BASE_OS_FILE_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace mpnanny {

class FileView {
 public:
  // NotFound or InvalidInput if there is no such file, it is no regular file or cannot be read. At
  // most kMostViews at a time in one process (Unavailable).
  static constexpr size_t kMostViews = 1024;
  static Result<FileView> Open(const std::string& path);

  FileView(FileView&& other) noexcept;
  FileView& operator=(FileView&& other) noexcept;
  FileView(const FileView&) = delete;
  FileView& operator=(const FileView&) = delete;
  ~FileView();

  std::span<const uint8_t> bytes() const { return {data_, size_}; }

  // True if part of what was mapped is no longer there: nothing that was read may be believed.
  bool changed() const;

 private:
  FileView(const uint8_t* data, size_t size, int slot) : data_(data), size_(size), slot_(slot) {}
  void Release();

  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  int slot_ = -1;  // in the table that the handler of SIGBUS reads; -1: nothing is mapped
};

}  // namespace mpnanny

#endif  // MPNANNY_BASE_OS_FILE_VIEW_H_
