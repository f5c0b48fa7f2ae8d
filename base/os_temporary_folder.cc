#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/temporary_folder.h"

namespace mpnanny {

Result<TemporaryFolder> TemporaryFolder::Create() {
  std::error_code error;
  std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  if (error) parent = "/tmp";
  std::string path = (parent / "mpnanny-XXXXXX").generic_string();
  if (mkdtemp(path.data()) == nullptr) {
    return Unavailable("No temporary folder can be made in " + parent.generic_string() + ": " +
                           std::strerror(errno) + ".",
                       "Set TMPDIR to a folder that can be written.");
  }
  return TemporaryFolder(std::move(path));
}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  std::error_code error;
  std::filesystem::remove_all(path_, error);  // follows no links
}

}  // namespace mpnanny
