// The repository's own files, for tests that hold the whole tree to a rule.
#ifndef MPNANNY_TESTS_CHECKS_TREE_H_
#define MPNANNY_TESTS_CHECKS_TREE_H_

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace mpnanny::checks {

struct SourceFile {
  std::string path;  // from the repository's root, "base/text.h"
  std::string text;

  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }
};

// Every file of the tree except what is built, fetched or hidden; read once.
inline const std::vector<SourceFile>& Tree() {
  static const std::vector<SourceFile> tree = [] {
    namespace fs = std::filesystem;
    const fs::path root(MPNANNY_SOURCE_DIR);
    std::vector<SourceFile> files;
    for (auto entry = fs::recursive_directory_iterator(root);
         entry != fs::recursive_directory_iterator(); ++entry) {
      const std::string name = entry->path().filename();
      static const std::set<std::string> kSkipped = {"build", "__pycache__", "node_modules",
                                                     "nanny_logs", "dist"};
      if (entry->is_directory()) {
        if (entry->is_symlink() || name.starts_with(".") || kSkipped.contains(name))
          entry.disable_recursion_pending();
        continue;
      }
      if (!entry->is_regular_file() || name.starts_with(".")) continue;
      std::ifstream in(entry->path(), std::ios::binary);
      files.push_back({entry->path().lexically_relative(root).generic_string(),
                       std::string(std::istreambuf_iterator<char>(in), {})});
    }
    std::sort(files.begin(), files.end(),
              [](const auto& a, const auto& b) { return a.path < b.path; });
    return files;
  }();
  return tree;
}

inline bool IsCpp(const std::string& path) { return path.ends_with(".h") || path.ends_with(".cc"); }

inline const SourceFile* FindFile(const std::string& path) {
  for (const SourceFile& file : Tree()) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

}  // namespace mpnanny::checks

#endif  // MPNANNY_TESTS_CHECKS_TREE_H_
