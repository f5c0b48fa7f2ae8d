#include "base/replace_file.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/new_file.h"
#include "base/part_file.h"
#include "base/text.h"

namespace mpnanny {

namespace fs = std::filesystem;

Result<void> MoveIntoPlace(const std::string& part, const std::string& path) {
  std::error_code error;
  fs::rename(part, path, error);
  if (!error) return {};
  return Unavailable(EscapeControl(path, 500) + " cannot be written: " + error.message() + ".");
}

Result<void> ReplaceFile(const std::string& path, std::string_view text) {
  std::error_code error;
  fs::path target = path;
  const bool link = fs::is_symlink(fs::symlink_status(target, error));
  if (link) target = fs::canonical(path, error);
  if (link && error) {
    return Unavailable(EscapeControl(path, 500) + " is a link that leads to no file.",
                       "Make the file that it names, or take the link away.");
  }
  const fs::file_status before = fs::status(target, error);
  const PartFile part(target.generic_string());
  {
    Result<NewFile> file = NewFile::Create(part.path());
    if (!file) {
      // The name of the file beside it would say nothing to anybody.
      const std::string& why = file.error().message;
      const size_t colon = why.rfind(": ");
      return Unavailable(EscapeControl(path, 500) + " cannot be written" +
                         (colon == std::string::npos ? "." : why.substr(colon)));
    }
    if (auto written = file->Append(text); !written) return written;
    if (auto kept = file->Sync(); !kept) return kept;
  }
  if (fs::is_regular_file(before)) fs::permissions(part.path(), before.permissions(), error);
  return MoveIntoPlace(part.path(), target.generic_string());
}

}  // namespace mpnanny
