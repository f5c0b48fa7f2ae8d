// A folder of our own for as long as the object lives, mode 0700; what is in it goes with it.
//
// Owns the folder; movable, not copyable. Not synchronised.
#ifndef MPNANNY_BASE_TEMPORARY_FOLDER_H_
#define MPNANNY_BASE_TEMPORARY_FOLDER_H_

#include <string>
#include <utility>

#include "base/result.h"

namespace mpnanny {

class TemporaryFolder {
 public:
  // Below the system's folder for temporary files. Unavailable if none can be made.
  static Result<TemporaryFolder> Create();

  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace mpnanny

#endif  // MPNANNY_BASE_TEMPORARY_FOLDER_H_
