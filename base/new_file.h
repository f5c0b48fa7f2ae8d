// A file that we make, and that nobody else may read: text is appended to it piece by piece.
//
// Owns the descriptor; movable, not copyable. Not synchronised.
#ifndef MPNANNY_BASE_NEW_FILE_H_
#define MPNANNY_BASE_NEW_FILE_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace mpnanny {

class NewFile {
 public:
  // Makes `path` (mode 0600). InvalidInput if there is anything at that place already, or if the
  // place cannot be written.
  static Result<NewFile> Create(const std::string& path);

  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&& other) noexcept;
  ~NewFile();

  // Hands all of it to the system. Unavailable if that fails: a full disk.
  Result<void> Append(std::string_view text);

  // Waits until it is on the disk: after a rename nobody shall find an empty file.
  Result<void> Sync();

 private:
  NewFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  int fd_;
  std::string path_;
};

}  // namespace mpnanny

#endif  // MPNANNY_BASE_NEW_FILE_H_
