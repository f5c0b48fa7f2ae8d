// The file that is written in place of another until it is whole: it lies beside the target, so
// that a rename puts it there at once, and is gone again if nobody renamed it.
//
// Owns the file's place; neither copyable nor movable. Not synchronised.
#ifndef MPNANNY_BASE_PART_FILE_H_
#define MPNANNY_BASE_PART_FILE_H_

#include <filesystem>
#include <string>
#include <system_error>

#include "base/random_id.h"

namespace mpnanny {

class PartFile {
 public:
  explicit PartFile(const std::string& target) : path_(target + ".part-" + RandomId()) {}
  ~PartFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace mpnanny

#endif  // MPNANNY_BASE_PART_FILE_H_
