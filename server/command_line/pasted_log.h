// A log that came from stdin, as a file for the tools; people read "stdin" for its path.
//
// Owns the file, which goes with it; movable, not copyable. Not synchronised.
#ifndef MPNANNY_SERVER_COMMAND_LINE_PASTED_LOG_H_
#define MPNANNY_SERVER_COMMAND_LINE_PASTED_LOG_H_

#include <cstdint>
#include <iosfwd>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "base/temporary_folder.h"
#include "tools/tool.h"

namespace mpnanny {

class PastedLog {
 public:
  static constexpr uint64_t kMostBytes = 256u << 20;

  // Reads `in` to its end; InvalidInput if it is empty or holds more than `most` bytes.
  static Result<PastedLog> Read(std::istream& in, uint64_t most = kMostBytes);

  const std::string& path() const { return path_; }

  // An answer about the file, or what went wrong with it, with "stdin" for its path.
  Result<ToolOutput> Shown(Result<ToolOutput> answer) const;

 private:
  explicit PastedLog(TemporaryFolder folder);
  std::string Shown(std::string text) const;
  void Show(Json& value) const;

  TemporaryFolder folder_;
  std::string path_;
};

}  // namespace mpnanny

#endif  // MPNANNY_SERVER_COMMAND_LINE_PASTED_LOG_H_
