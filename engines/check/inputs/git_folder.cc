#include "engines/check/inputs/git_folder.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/resolved_path.h"
#include "base/text.h"

namespace mpnanny::check {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostBytes = 64 << 10;
constexpr size_t kMostEntries = 5000;
constexpr int kMostBorrowed = 5;  // as deep as git follows alternates

Error Outside(const std::string& folder, const std::string& part) {
  return InvalidInput("The git repository of " + EscapeControl(folder, 300) + " reads " +
                          EscapeControl(part, 300) +
                          ", which lies outside the folders that this server may read.",
                      "Check it without diff, on the command line (mpnanny check --diff), or start "
                      "the server with --root for the repository's folder as well.");
}

// Every link in `folder`, which git follows, leads into the roots; folders down to `depth`.
std::optional<std::string> LinkThatLeavesRoots(const fs::path& folder, int depth,
                                               const AllowedRoots& roots) {
  const auto entries = ListResolvedFolder(folder.generic_string(), kMostEntries);
  if (!entries) return std::nullopt;  // git finds nothing there, either
  for (const FolderEntry& entry : *entries) {
    const std::string path = (folder / entry.name).generic_string();
    if (entry.kind == FolderEntry::Kind::kLink && !roots.Resolve(path)) return path;
    if (entry.kind != FolderEntry::Kind::kFolder || depth == 0) continue;
    if (auto link = LinkThatLeavesRoots(path, depth - 1, roots)) return link;
  }
  return std::nullopt;
}

// The folder that a one-line file names, relative to `base`; absent if there is no such file.
std::optional<fs::path> NamedBy(const fs::path& file, std::string_view prefix,
                                const fs::path& base) {
  const auto text = ReadResolvedFile(file.generic_string(), kMostBytes);
  if (!text || !text->starts_with(prefix)) return std::nullopt;
  std::string name = text->substr(prefix.size());
  while (name.ends_with('\n') || name.ends_with('\r')) name.pop_back();
  while (name.starts_with(' ')) name.erase(0, 1);
  return base / name;  // an absolute one stands for itself
}

// What a folder of objects borrows from others lies in the roots, too.
Result<void> CheckObjects(const std::string& folder, const fs::path& objects,
                          const AllowedRoots& roots, int borrowed) {
  if (const auto link = LinkThatLeavesRoots(objects, 1, roots)) return Outside(folder, *link);
  const auto text =
      ReadResolvedFile((objects / "info" / "alternates").generic_string(), kMostBytes);
  if (!text) return {};
  for (std::string_view rest = *text; !rest.empty();) {
    const size_t end = rest.find('\n');
    const std::string line(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.empty() || line.starts_with('#')) continue;
    const auto other = roots.Resolve((objects / line).generic_string());
    if (!other || borrowed == kMostBorrowed) return Outside(folder, line);
    if (auto checked = CheckObjects(folder, *other, roots, borrowed + 1); !checked) return checked;
  }
  return {};
}

}  // namespace

Result<std::string> RepositoryOf(const std::string& folder, const AllowedRoots& roots) {
  std::error_code ec;
  fs::path top(folder);
  while (!fs::exists(top / ".git", ec)) {
    if (top == top.parent_path()) return std::string();
    top = top.parent_path();
  }
  if (roots.unrestricted()) return top.generic_string();
  const std::string dot_git = (top / ".git").generic_string();
  auto git = roots.Resolve(dot_git);
  if (!git) return Outside(folder, dot_git);
  if (const auto named = NamedBy(*git, "gitdir:", top)) {
    git = roots.Resolve(named->generic_string());
    if (!git) return Outside(folder, named->generic_string());
  }
  Result<std::string> common = git;
  if (const auto named = NamedBy(fs::path(*git) / "commondir", "", *git)) {
    common = roots.Resolve(named->generic_string());
    if (!common) return Outside(folder, named->generic_string());
  }
  for (const std::string& part : {*git, *common, *common + "/info", *common + "/refs"}) {
    if (const auto link = LinkThatLeavesRoots(part, part.ends_with("/refs") ? 4 : 0, roots))
      return Outside(folder, *link);
  }
  MPN_TRY(CheckObjects(folder, fs::path(*common) / "objects", roots, 0));
  return top.generic_string();
}

}  // namespace mpnanny::check
