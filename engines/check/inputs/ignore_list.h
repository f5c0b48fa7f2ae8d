// Patterns that exclude files, with the meaning that git gives to the lines of a .gitignore.
//
// A later pattern wins over an earlier one; "!" takes back; a slash in front or inside ties a
// pattern to the list's folder, a slash at the end to folders; "**" crosses folders. Matches bytes,
// in bounded time. Immutable after construction; reads no file.
#ifndef MPNANNY_ENGINES_CHECK_INPUTS_IGNORE_LIST_H_
#define MPNANNY_ENGINES_CHECK_INPUTS_IGNORE_LIST_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mpnanny::check {

class IgnoreList {
 public:
  IgnoreList() = default;
  // The content of a .gitignore.
  explicit IgnoreList(std::string_view text);
  // One pattern an element.
  explicit IgnoreList(const std::vector<std::string>& patterns);

  bool empty() const { return patterns_.empty(); }

  // What the list says of `path` (below the list's folder, parts separated by '/'): true: excluded,
  // false: taken back by a "!", nullopt: nothing. Says nothing about the folders above it: who
  // walks a tree does not enter what is excluded.
  std::optional<bool> Match(std::string_view path, bool is_folder) const;

  // True if the file itself or a folder above it is excluded.
  bool Excludes(std::string_view file) const;

 private:
  struct Pattern {
    std::string text;
    bool negated = false;
    bool folders_only = false;
    bool name_only = false;  // has no slash: matched against the last part of the path
    bool literal = false;    // nothing in it is special
  };
  void Add(std::string_view line);

  std::vector<Pattern> patterns_;
};

// True if the shell-style `pattern` matches all of `text`: ? * [set] \escape. With `is_path` the
// first two and sets do not match '/', and "**" between slashes stands for any number of folders.
bool MatchesPattern(std::string_view pattern, std::string_view text, bool is_path);

}  // namespace mpnanny::check

#endif  // MPNANNY_ENGINES_CHECK_INPUTS_IGNORE_LIST_H_
