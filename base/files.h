// Reading files and deciding which of them a client may name.
//
// Free functions and one immutable value type; safe from any thread. Nothing here writes.
#ifndef MPNANNY_BASE_FILES_H_
#define MPNANNY_BASE_FILES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mpnanny {

// Largest source or text file that is read whole.
inline constexpr uint64_t kMaxTextFileBytes = 16u << 20;

// The file's bytes. Fails (NotFound, InvalidInput) if it is missing, no regular file, unreadable or
// larger than `max_bytes`; a FIFO or a device is refused, not waited for.
Result<std::string> ReadFile(const std::string& path, uint64_t max_bytes);

// True if the text starts as the URL of a PostgreSQL database does, which is no path.
bool IsDatabaseUrl(std::string_view text);

// The folders that a client's paths must lie in. A path is resolved component by component through
// symbolic links and then compared by component, so neither ".." nor a link nor a folder with a
// longer name gets out.
class AllowedRoots {
 public:
  // Everything is allowed: for the command line, where the person who types has those rights
  // anyway.
  static AllowedRoots Unrestricted();

  // `roots` as given by --root. Empty: the working directory, unless that is "/" or gone (some
  // desktop clients start servers there); then no path is allowed and the error says to pass
  // --root. A root that is no directory is an error, and so is a database's URL with a password.
  static Result<AllowedRoots> Create(const std::vector<std::string>& roots);

  // The canonical form of `path` (relative ones are taken from the first root), which must exist
  // and lie in a root.
  Result<std::string> Resolve(const std::string& path) const;

  const std::vector<std::string>& roots() const { return roots_; }
  // The URLs among them, as given: databases whose runs a client may name.
  const std::vector<std::string>& databases() const { return databases_; }
  bool unrestricted() const { return unrestricted_; }

 private:
  std::vector<std::string> roots_;  // canonical
  std::vector<std::string> databases_;
  bool unrestricted_ = false;
};

}  // namespace mpnanny

#endif  // MPNANNY_BASE_FILES_H_
