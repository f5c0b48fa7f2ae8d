#include "tools/static_check/sources.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <system_error>

#include "base/text.h"

namespace mpnanny::static_check {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFiles = 20000;
constexpr int kMaxDepth = 40;
// A notebook carries its outputs; the code in it is small.
constexpr uint64_t kMaxNotebookBytes = 16u << 20;

constexpr std::array<std::string_view, 18> kSkippedFolders = {
    "node_modules",  "build",         "dist",        "venv",  "env",     "virtualenv",
    "site-packages", "dist-packages", "__pycache__", "tests", "test",    "docs",
    "doc",           "third_party",   "CVS",         "wandb", "htmlcov", "__pypackages__"};

bool IsSource(const fs::path& path) {
  return path.extension() == ".py" || path.extension() == ".ipynb";
}

// The simple lines of a .gitignore: a name, a name/ and a *.suffix. Negations and paths with
// slashes inside are left out, which only makes us look at more.
std::vector<std::string> ReadIgnored(const fs::path& folder) {
  std::vector<std::string> patterns;
  const auto text = ReadFile((folder / ".gitignore").string(), 1u << 20);
  if (!text) return patterns;
  for (size_t start = 0; start < text->size();) {
    size_t end = text->find('\n', start);
    if (end == std::string::npos) end = text->size();
    std::string line = text->substr(start, end - start);
    start = end + 1;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '/'))
      line.pop_back();
    if (line.starts_with('/')) line.erase(0, 1);
    const bool plain = !line.empty() && line[0] != '#' && line[0] != '!' &&
                       line.find_first_of("/[\\") == std::string::npos;
    if (plain && line != "*") patterns.push_back(std::move(line));
  }
  return patterns;
}

class Collector {
 public:
  Collector(const CancelToken& cancel, CollectedSources* out) : cancel_(cancel), out_(out) {}

  void Folder(const fs::path& folder, const std::string& shown, std::vector<std::string> ignored,
              int depth) {
    if (depth > kMaxDepth || cancel_.stop_requested()) return;
    for (std::string& pattern : ReadIgnored(folder)) ignored.push_back(std::move(pattern));
    std::error_code error;
    std::vector<fs::directory_entry> entries;
    for (fs::directory_iterator it(folder, fs::directory_options::skip_permission_denied, error),
         end;
         !error && it != end; it.increment(error)) {
      entries.push_back(*it);
    }
    if (error)
      out_->notes.push_back(shown + ": not all of the folder could be read (" + error.message() +
                            ").");
    std::sort(entries.begin(), entries.end(),
              [](const auto& a, const auto& b) { return a.path() < b.path(); });
    for (const fs::directory_entry& entry : entries) {
      const std::string name = entry.path().filename().string();
      const std::string below = shown.ends_with('/') ? shown + name : shown + "/" + name;
      const bool excluded = name.starts_with('.') ||
                            std::any_of(ignored.begin(), ignored.end(),
                                        [&](const std::string& p) { return MatchesGlob(p, name); });
      if (excluded) continue;
      const bool link = entry.is_symlink(error);
      if (entry.is_directory(error)) {
        const bool skip = link ||
                          std::find(kSkippedFolders.begin(), kSkippedFolders.end(), name) !=
                              kSkippedFolders.end() ||
                          fs::exists(entry.path() / "pyvenv.cfg", error);
        if (!skip) Folder(entry.path(), below, ignored, depth + 1);
      } else if (!link && entry.is_regular_file(error) && IsSource(entry.path())) {
        File(entry.path().string(), below);
      }
    }
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
    auto text = ReadFile(path, path.ends_with(".ipynb") ? kMaxNotebookBytes : kMaxSourceBytes);
    if (!text) {
      out_->notes.push_back(shown + ": not checked. " + text.error().Text());
      ++out_->skipped;
      return;
    }
    out_->sources.push_back({shown, std::move(*text)});
  }

 private:
  const CancelToken& cancel_;
  CollectedSources* out_;
  std::set<std::string> seen_;
  bool full_ = false;
};

}  // namespace

Result<CollectedSources> CollectSources(const std::vector<std::string>& paths,
                                        const AllowedRoots& roots, const CancelToken& cancel) {
  CollectedSources collected;
  Collector collector(cancel, &collected);
  for (const std::string& path : paths) {
    auto resolved = roots.Resolve(path);
    if (!resolved) return std::move(resolved).error();
    std::error_code error;
    if (fs::is_directory(*resolved, error)) {
      collector.Folder(*resolved, path, {}, 0);
    } else if (!error && fs::is_regular_file(*resolved, error)) {
      collector.File(*resolved, path);
    } else {
      return InvalidInput("'" + EscapeControl(path, 200) + "' is neither a file nor a folder.");
    }
    if (auto stopped = cancel.Check(); !stopped) return stopped.error();
  }
  return collected;
}

}  // namespace mpnanny::static_check
