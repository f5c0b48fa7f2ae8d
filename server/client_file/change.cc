#include "server/client_file/change.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/replace_file.h"
#include "base/text.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostBytes = 64u << 20;  // Claude Code keeps its history in such a file

// The file's text; nothing if there is no file.
Result<std::optional<std::string>> ReadIfThere(const std::string& path) {
  Result<std::string> text = ReadFile(path, kMostBytes);
  if (text) return std::optional<std::string>(*std::move(text));
  if (text.error().kind == ErrorKind::kNotFound) return std::optional<std::string>();
  return text.error();
}

Error InFile(const std::string& path, const Error& error) {
  return {error.kind, EscapeControl(path, 500) + ", " + error.message,
          "Correct it in an editor and run this again. Nothing was changed."};
}

}  // namespace

std::string BackupPath(const std::string& path) { return path + ".mpnanny-backup"; }

Result<FileChange> PlanInstall(const ClientPlace& place, const Json& block) {
  Result<std::optional<std::string>> before = ReadIfThere(place.path);
  if (!before) return before.error();
  const std::string text = before->value_or("");
  const Result<Json> ours = BlockIn(place.format, text, place.key);
  if (!ours) return InFile(place.path, ours.error());
  Result<std::string> after = WithBlock(place.format, text, block);
  if (!after) return InFile(place.path, after.error());
  FileChange change{place.path, *std::move(before), *std::move(after)};
  if (change.before && ours->empty()) change.backup = FileChange::Backup::kWrite;
  std::error_code error;
  const fs::path folder = fs::path(place.path).parent_path();
  change.new_folder = !folder.empty() && !fs::exists(folder, error);
  return change;
}

Result<FileChange> PlanUndo(const ClientPlace& place) {
  MPN_TRY_ASSIGN(std::optional<std::string> read, ReadIfThere(place.path));
  FileChange change{place.path, read, read};
  if (!change.before) return change;
  const std::string& text = *change.before;
  const Result<Json> ours = BlockIn(place.format, text, place.key);
  if (!ours) return InFile(place.path, ours.error());
  if (ours->empty()) return change;
  MPN_TRY_ASSIGN(const std::optional<std::string> copy, ReadIfThere(BackupPath(place.path)));
  change.backup = FileChange::Backup::kRemove;
  if (copy) {
    const Result<std::string> made = WithBlock(place.format, *copy, *ours);
    if (made && *made == text) {
      change.after = *copy;
      return change;
    }
  }
  const bool had_key = copy && HasKey(place.format, *copy, place.key);
  Result<std::string> without = WithoutBlock(place.format, text, place.key, !had_key);
  if (!without) return InFile(place.path, without.error());
  change.after = *std::move(without);
  if (!copy && SaysNothing(place.format, *change.after)) change.after.reset();
  return change;
}

Result<void> MakeChange(const FileChange& change) {
  std::error_code error;
  const fs::path path = change.path;
  const std::string backup = BackupPath(change.path);
  if (change.new_folder) {
    fs::create_directories(path.parent_path(), error);
    if (error) {
      return Unavailable("The folder " + EscapeControl(path.parent_path().generic_string(), 500) +
                         " cannot be made: " + error.message() + ".");
    }
  }
  if (change.backup == FileChange::Backup::kWrite) {
    if (auto kept = ReplaceFile(backup, *change.before); !kept) return kept;
  }
  if (change.after) {
    if (auto written = ReplaceFile(change.path, *change.after); !written) return written;
  } else if (!fs::remove(fs::canonical(path, error), error) || error) {
    return Unavailable(EscapeControl(change.path, 500) + " cannot be removed: " + error.message() +
                       ".");
  }
  if (change.backup == FileChange::Backup::kRemove) fs::remove(backup, error);
  return {};
}

}  // namespace mpnanny
