#include "server/methods/path_completion.h"

#include <algorithm>
#include <filesystem>

#include "base/resolved_path.h"
#include "base/text.h"

namespace mpnanny {
namespace fs = std::filesystem;

std::vector<std::string> CompletePath(const std::string& typed, const AllowedRoots& roots) {
  constexpr size_t kMaxEntries = 5000;
  const size_t slash = typed.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : typed.substr(0, slash + 1);
  const std::string start = typed.substr(folder.size());
  const auto resolved = roots.Resolve(folder.empty() ? "." : folder);
  if (!resolved) return {};

  const auto entries = ListResolvedFolder(*resolved, kMaxEntries);
  if (!entries) return {};
  std::vector<std::string> paths;
  for (const FolderEntry& entry : *entries) {
    const std::string& name = entry.name;
    if (!name.starts_with(start) || (name.starts_with('.') && start.empty()) || !IsUtf8(name))
      continue;
    // Of what a link leads to nothing is told, not even what it is, if it lies outside.
    bool is_folder = entry.kind == FolderEntry::Kind::kFolder;
    if (entry.kind == FolderEntry::Kind::kLink) {
      const auto target = roots.Resolve(*resolved + "/" + name);
      std::error_code ec;
      is_folder = target && fs::is_directory(*target, ec);
    }
    paths.push_back(folder + name + (is_folder ? "/" : ""));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace mpnanny
