#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "tools/runs/run.h"

namespace mpnanny::runs {
namespace fs = std::filesystem;
namespace {

// Bounds of a walk: more than any project has, less than what a person waits for.
constexpr int kMaxDepth = 12;
constexpr size_t kMaxEntries = 200'000;
constexpr size_t kMaxFiles = 5'000;

bool NamedLikeDatabase(const fs::path& path) {
  const std::string extension = path.extension().generic_string();
  return extension == ".db" || extension == ".sqlite" || extension == ".sqlite3";
}

// Folders that hold no runs and often very many files.
bool WorthEntering(const fs::path& folder) {
  const std::string name = folder.filename().generic_string();
  return name != ".git" && name != "node_modules" && name != "__pycache__" && name != ".venv" &&
         name != "site-packages";
}

}  // namespace

Result<FoundFiles> FindDatabases(const std::string& path, const AllowedRoots& roots,
                                 const CancelToken& cancel) {
  auto start = roots.Resolve(path);
  if (!start) {
    Error error = start.error();
    if (error.hint.empty()) error.hint = "Name a folder; \".\" is where the server searches first.";
    return error;
  }
  FoundFiles found;
  found.start = *start;
  std::error_code ec;
  if (!fs::is_directory(*start, ec)) {
    found.paths.push_back(*start);
    return found;
  }
  found.folder = true;
  // Without follow_directory_symlink a loop of links cannot be entered; a linked file is resolved
  // and must lie in a root.
  auto it =
      fs::recursive_directory_iterator(*start, fs::directory_options::skip_permission_denied, ec);
  if (ec) return InvalidInput(EscapeControl(*start) + " cannot be read: " + ec.message() + ".");
  size_t entries = 0;
  while (it != fs::recursive_directory_iterator()) {
    if (++entries % 256 == 0) {
      if (auto check = cancel.Check(); !check) return check.error();
    }
    if (entries > kMaxEntries || found.paths.size() >= kMaxFiles) {
      found.notes.push_back("The folder is very large: the search ended after " +
                            std::to_string(entries - 1) + " entries. Name a folder further down.");
      break;
    }
    const fs::directory_entry& entry = *it;
    std::error_code ignored;
    if (entry.is_directory(ignored)) {
      if (it.depth() >= kMaxDepth || !WorthEntering(entry.path())) it.disable_recursion_pending();
    } else if (NamedLikeDatabase(entry.path()) && entry.is_regular_file(ignored) &&
               LooksLikeDatabase(entry.path().generic_string())) {
      if (auto canonical = roots.Resolve(entry.path().generic_string()))
        found.paths.push_back(*canonical);
    }
    it.increment(ec);
    if (ec) {
      found.notes.push_back("A folder could not be read: " + ec.message() + ".");
      break;
    }
  }
  std::sort(found.paths.begin(), found.paths.end());
  found.paths.erase(std::unique(found.paths.begin(), found.paths.end()), found.paths.end());
  return found;
}

}  // namespace mpnanny::runs
