#include <filesystem>
#include <system_error>

#include "base/random_id.h"
#include "base/temporary_folder.h"

namespace mpnanny {
namespace fs = std::filesystem;

// Windows' folder for temporary files is the user's own.
Result<TemporaryFolder> TemporaryFolder::Create() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  const fs::path path = parent / ("mpnanny-" + RandomId());
  if (!error && fs::create_directory(path, error)) return TemporaryFolder(path.generic_string());
  return Unavailable("No temporary folder can be made in " + parent.generic_string() + ": " +
                         error.message() + ".",
                     "Set TEMP to a folder that can be written.");
}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  std::error_code error;
  fs::remove_all(path_, error);  // follows no links
}

}  // namespace mpnanny
