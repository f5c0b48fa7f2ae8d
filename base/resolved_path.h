// Opening what AllowedRoots let through, and nothing that has taken its place since.
//
// Between the check of a path and its opening another program may put a symbolic link where a file
// or a folder was. A path that AllowedRoots::Resolve gave holds no link, so these open it, or a
// name below it, and follow none: a link on the way is an error. Files that lie beside another one
// (a ring, a .gitignore) are opened the same way, since a link there was not checked at all.
//
// In Windows links are followed: to make one takes a right that ordinary users do not have.
//
// Values that own what they opened; each belongs to one thread at a time. Nothing here writes.
#ifndef MPNANNY_BASE_RESOLVED_PATH_H_
#define MPNANNY_BASE_RESOLVED_PATH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mpnanny {

// ReadFile() (base/files.h) of a resolved path.
Result<std::string> ReadResolvedFile(const std::string& path, uint64_t max_bytes);

// A file that is read from front to back.
class ResolvedFile {
 public:
  // NotFound or InvalidInput for what is missing, unreadable or no regular file; a FIFO is not
  // waited for.
  static Result<ResolvedFile> Open(const std::string& path);

  ResolvedFile(ResolvedFile&&) noexcept;
  ResolvedFile& operator=(ResolvedFile&&) noexcept;
  ~ResolvedFile();

  // Fills `to` as far as there are bytes; returns how many.
  size_t Read(char* to, size_t count);
  // The next byte to be read, from the beginning.
  void Seek(uint64_t position);
  uint64_t bytes() const;  // when it was opened

 private:
  struct Opened;
  explicit ResolvedFile(std::unique_ptr<Opened> opened);

  std::unique_ptr<Opened> opened_;
};

struct FolderEntry {
  enum class Kind { kFile, kFolder, kLink, kOther };
  std::string name;
  Kind kind = Kind::kOther;
};
// What lies in the folder, in no order, at most `most` entries of it.
Result<std::vector<FolderEntry>> ListResolvedFolder(const std::string& path, size_t most);

// A folder that is held open, for a library that opens by name.
class ResolvedFolder {
 public:
  static Result<ResolvedFolder> Open(const std::string& path);

  ResolvedFolder(ResolvedFolder&&) noexcept;
  ResolvedFolder& operator=(ResolvedFolder&&) noexcept;
  ~ResolvedFolder();

  // A path of the entry that leads into this very folder, whatever its own path leads to by now.
  // The entry itself may be a link. Where the system has no such names (all but Linux), the plain
  // path. Valid as long as the folder is held.
  std::string PathOf(std::string_view entry) const;

 private:
  ResolvedFolder(int fd, std::string prefix) : fd_(fd), prefix_(std::move(prefix)) {}

  int fd_ = -1;
  std::string prefix_;  // with a slash at its end
};

}  // namespace mpnanny

#endif  // MPNANNY_BASE_RESOLVED_PATH_H_
