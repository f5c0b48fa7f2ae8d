#include <algorithm>
#include <filesystem>

#include "base/resolved_path.h"
#include "base/text.h"
#include "engines/runs/run.h"

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
  // No linked folder is entered: a loop of links would have no end. A linked file is resolved and
  // must lie in a root.
  std::vector<std::pair<fs::path, int>> rest = {{*start, 0}};
  size_t entries = 0;
  const auto over = [&] { return entries > kMaxEntries || found.paths.size() >= kMaxFiles; };
  while (!rest.empty() && !over()) {
    MPN_TRY(cancel.Check());
    const auto [folder, depth] = std::move(rest.back());
    rest.pop_back();
    const auto listed = ListResolvedFolder(folder.generic_string(), kMaxEntries + 1 - entries);
    if (!listed) {
      if (depth == 0) return listed.error();
      continue;  // this user may not enter it, or it went
    }
    for (const FolderEntry& entry : *listed) {
      ++entries;
      if (over()) break;
      const fs::path below = folder / entry.name;
      if (entry.kind == FolderEntry::Kind::kFolder) {
        if (depth < kMaxDepth && WorthEntering(below)) rest.emplace_back(below, depth + 1);
      } else if (entry.kind != FolderEntry::Kind::kOther && NamedLikeDatabase(below)) {
        const auto canonical = roots.Resolve(below.generic_string());
        if (canonical && LooksLikeDatabase(*canonical)) found.paths.push_back(*canonical);
      }
    }
  }
  if (over()) {
    found.notes.push_back("The folder is very large: the search ended after " +
                          std::to_string(entries - 1) + " entries. Name a folder further down.");
  }
  std::sort(found.paths.begin(), found.paths.end());
  found.paths.erase(std::unique(found.paths.begin(), found.paths.end()), found.paths.end());
  return found;
}

}  // namespace mpnanny::runs
