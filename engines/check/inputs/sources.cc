#include "engines/check/inputs/sources.h"

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <set>
#include <system_error>

#include "base/resolved_path.h"
#include "base/text.h"
#include "engines/check/inputs/ignore_list.h"
#include "engines/check/inputs/settings.h"

namespace mpnanny::check {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFiles = 20000;
constexpr int kMaxDepth = 40;
// Configuration files that are read to see what they are: a data set may hold a million.
constexpr int kMaxSettingsFiles = 5000;
// A notebook carries its outputs; the code in it is small.
constexpr uint64_t kMaxNotebookBytes = 16u << 20;

constexpr std::array<std::string_view, 18> kSkippedFolders = {
    "node_modules",  "build",         "dist",        "venv",  "env",     "virtualenv",
    "site-packages", "dist-packages", "__pycache__", "tests", "test",    "docs",
    "doc",           "third_party",   "CVS",         "wandb", "htmlcov", "__pypackages__"};

bool IsSource(const fs::path& path) {
  return path.extension() == ".py" || path.extension() == ".ipynb";
}

// The .gitignore of one folder, or the like: its patterns mean paths below that folder.
struct FolderIgnores {
  std::string folder;
  IgnoreList list;
};

void AddIgnores(const fs::path& folder, const fs::path& file, std::vector<FolderIgnores>* all) {
  // As git does, a link is not followed.
  const auto text = ReadResolvedFile(file.generic_string(), 1u << 20);
  if (!text) return;
  IgnoreList list(*text);
  if (!list.empty()) all->push_back({folder.generic_string(), std::move(list)});
}

// True if `path`, which lies below all the lists' folders, is excluded. The nearest list that says
// anything decides.
bool IsIgnored(const std::vector<FolderIgnores>& all, std::string_view path, bool is_folder) {
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    const size_t prefix = it->folder.ends_with('/') ? it->folder.size() : it->folder.size() + 1;
    if (const auto says = it->list.Match(path.substr(prefix), is_folder)) return *says;
  }
  return false;
}

// What the repository that holds `folder` says above it, from its top down. Nothing where `folder`
// is itself excluded there: it was named, so what is in it is wanted.
std::vector<FolderIgnores> IgnoresAbove(const fs::path& folder, const AllowedRoots& roots) {
  std::vector<fs::path> above;
  std::error_code error;
  fs::path top = folder;
  while (!fs::exists(top / ".git", error)) {
    const fs::path parent = top.parent_path();
    if (parent == top || !roots.Resolve(parent.generic_string())) return {};
    above.push_back(parent);
    top = parent;
  }
  std::vector<FolderIgnores> all;
  AddIgnores(top, top / ".git" / "info" / "exclude", &all);
  for (auto it = above.rbegin(); it != above.rend(); ++it) {
    AddIgnores(*it, *it / ".gitignore", &all);
    const fs::path& below = it + 1 == above.rend() ? folder : *(it + 1);
    if (IsIgnored(all, below.generic_string(), true)) return {};
  }
  return all;
}

class Collector {
 public:
  Collector(const CancelToken& cancel, CollectedSources* out) : cancel_(cancel), out_(out) {}

  // `ignores`: of this folder's parents; left as it was.
  void Folder(const fs::path& folder, const std::string& shown, std::vector<FolderIgnores>& ignores,
              int depth) {
    if (depth > kMaxDepth || cancel_.stop_requested()) return;
    const size_t of_parents = ignores.size();
    AddIgnores(folder, folder / ".gitignore", &ignores);
    auto listed = ListResolvedFolder(folder.generic_string(), SIZE_MAX);
    // A folder that this user may not enter is passed over.
    std::vector<FolderEntry> entries = listed ? *std::move(listed) : std::vector<FolderEntry>();
    std::sort(entries.begin(), entries.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    for (const FolderEntry& entry : entries) {
      const fs::path path = folder / entry.name;
      const std::string below =
          shown.ends_with('/') ? shown + entry.name : shown + "/" + entry.name;
      const bool is_folder = entry.kind == FolderEntry::Kind::kFolder;
      if (entry.name.starts_with('.') || IsIgnored(ignores, path.generic_string(), is_folder) ||
          IsExcluded(path.generic_string(), is_folder))
        continue;
      std::error_code error;
      if (is_folder) {
        const bool skip = std::find(kSkippedFolders.begin(), kSkippedFolders.end(), entry.name) !=
                              kSkippedFolders.end() ||
                          fs::exists(path / "pyvenv.cfg", error);
        if (!skip) Folder(path, below, ignores, depth + 1);
      } else if (entry.kind == FolderEntry::Kind::kFile) {
        if (IsSource(path)) File(path.generic_string(), below);
        if (IsSettingsPath(entry.name) && fs::file_size(path, error) <= kMaxSettingsBytes)
          SettingsFile(path.generic_string(), below);
      }
    }
    ignores.erase(ignores.begin() + static_cast<std::ptrdiff_t>(of_parents), ignores.end());
  }

  // Taken only if it may be the configuration of a training run.
  void SettingsFile(const std::string& path, const std::string& shown) {
    if (settings_read_ >= kMaxSettingsFiles || seen_.contains(path)) return;
    ++settings_read_;
    auto text = ReadResolvedFile(path, kMaxSettingsBytes);
    if (!text || !MayHoldSettings(*text) || out_->sources.size() >= kMaxFiles) return;
    seen_.insert(path);
    Take(path, shown, *std::move(text));
  }

  void File(const std::string& path, const std::string& shown) {
    if (!seen_.insert(path).second) return;
    if (out_->sources.size() >= kMaxFiles) {
      if (!full_)
        out_->notes.push_back("Only the first " + std::to_string(kMaxFiles) +
                              " files are checked.");
      full_ = true;
      ++out_->skipped;
      return;
    }
    auto text =
        ReadResolvedFile(path, path.ends_with(".ipynb") ? kMaxNotebookBytes : kMaxSourceBytes);
    if (!text) {
      out_->notes.push_back(shown + ": not checked. " + text.error().Text());
      ++out_->skipped;
      return;
    }
    Take(path, shown, *std::move(text));
  }

  // The project that what comes next belongs to; null for none.
  void set_project(const Pyproject* project) { project_ = project; }

 private:
  void Take(const std::string& path, const std::string& shown, std::string text) {
    Source& source = out_->sources.emplace_back();
    source.path = shown;
    source.text = std::move(text);
    source.file = path;
    if (project_ == nullptr) return;
    source.policy = project_->policy;
    source.ignore = project_->IgnoredIn(path);
  }

  bool IsExcluded(const std::string& path, bool is_folder) const {
    return project_ != nullptr &&
           project_->exclude.Match(project_->Below(path), is_folder).value_or(false);
  }

  const CancelToken& cancel_;
  CollectedSources* out_;
  const Pyproject* project_ = nullptr;
  std::set<std::string> seen_;
  bool full_ = false;
  int settings_read_ = 0;
};

// The configuration that holds for `folder`, read once; null for none.
const Pyproject* ProjectOf(const std::string& folder, const AllowedRoots& roots,
                           const std::vector<std::string>& rule_ids,
                           std::deque<Pyproject>* projects) {
  auto found = FindPyproject(folder, roots, rule_ids);
  if (!found) return nullptr;
  for (const Pyproject& known : *projects) {
    if (known.folder == found->folder) return &known;
  }
  return &projects->emplace_back(*std::move(found));
}

}  // namespace

Result<CollectedSources> CollectSources(const std::vector<std::string>& paths,
                                        const AllowedRoots& roots, const CancelToken& cancel,
                                        const std::vector<std::string>& rule_ids,
                                        bool force_exclude) {
  CollectedSources collected;
  std::deque<Pyproject> projects;
  Collector collector(cancel, &collected);
  for (const std::string& path : paths) {
    MPN_TRY_ASSIGN(auto resolved, roots.Resolve(path));
    const std::string shown = fs::path(path).generic_string();
    std::error_code error;
    const bool is_folder = fs::is_directory(resolved, error);
    if (!is_folder && (error || !fs::is_regular_file(resolved, error)))
      return InvalidInput("'" + EscapeControl(path, 200) + "' is neither a file nor a folder.");
    const std::string folder =
        is_folder ? resolved : fs::path(resolved).parent_path().generic_string();
    const Pyproject* const project =
        rule_ids.empty() ? nullptr : ProjectOf(folder, roots, rule_ids, &projects);
    if (force_exclude && project != nullptr && resolved != project->folder) {
      const std::string_view below = project->Below(resolved);
      if (project->exclude.Match(below, is_folder).value_or(false) ||
          project->exclude.Excludes(below)) {
        continue;
      }
    }
    collector.set_project(project);
    if (is_folder) {
      std::vector<FolderIgnores> ignores = IgnoresAbove(folder, roots);
      collector.Folder(folder, shown, ignores, 0);
    } else {
      collector.File(resolved, shown);
    }
    MPN_TRY(cancel.Check());
  }
  for (Pyproject& project : projects) {
    collected.notes.insert(collected.notes.begin(), project.notes.begin(), project.notes.end());
    collected.projects.push_back(std::move(project));
  }
  return collected;
}

}  // namespace mpnanny::check
