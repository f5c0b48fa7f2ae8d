#include "server/methods/path_completion.h"

#include <algorithm>
#include <filesystem>

#include "base/text.h"

namespace mpnanny {
namespace fs = std::filesystem;

std::vector<std::string> CompletePath(const std::string& typed, const AllowedRoots& roots) {
  constexpr int kMaxEntries = 5000;
  const size_t slash = typed.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : typed.substr(0, slash + 1);
  const std::string start = typed.substr(folder.size());
  const auto resolved = roots.Resolve(folder.empty() ? "." : folder);
  if (!resolved) return {};

  std::vector<std::string> paths;
  std::error_code ec;
  int seen = 0;
  for (auto it =
           fs::directory_iterator(*resolved, fs::directory_options::skip_permission_denied, ec);
       !ec && it != fs::directory_iterator() && seen < kMaxEntries; it.increment(ec), ++seen) {
    const std::string name = it->path().filename().generic_string();
    if (!name.starts_with(start) || (name.starts_with('.') && start.empty()) || !IsUtf8(name))
      continue;
    std::error_code ignored;
    paths.push_back(folder + name + (it->is_directory(ignored) ? "/" : ""));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace mpnanny
