#include "engines/check/inputs/git_diff.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>

#include "base/child_process.h"
#include "base/text.h"

namespace mpnanny::check {
namespace {

constexpr std::chrono::seconds kLimit{20};

// A hook's own variables would point git at another repository, and core.worktree of this one at
// another folder.
std::vector<EnvironmentChange> GitEnvironment(const std::string& top) {
  return {{"GIT_DIR", std::nullopt},
          {"GIT_WORK_TREE", top},
          {"GIT_COMMON_DIR", std::nullopt},
          {"GIT_OBJECT_DIRECTORY", std::nullopt},
          {"GIT_ALTERNATE_OBJECT_DIRECTORIES", std::nullopt},
          {"GIT_INDEX_FILE", std::nullopt},
          {"GIT_PREFIX", std::nullopt},
          {"GIT_EXTERNAL_DIFF", std::nullopt},
          {"GIT_ALLOW_PROTOCOL", "none"},
          {"GIT_NO_LAZY_FETCH", "1"},
          {"GIT_OPTIONAL_LOCKS", "0"},
          {"GIT_TERMINAL_PROMPT", "0"},
          {"LC_ALL", "C"}};
}

// git in `top`, with everything off that could run a program or reach out.
std::vector<std::string> GitCommand(const std::string& top) {
  return {"git", "--no-pager",           "-C", top,
          "-c",  "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
          "-c",  "core.quotePath=false", "-c", "core.untrackedCache=false"};
}

Result<ProgramOutput> RunGit(const std::string& top, const std::vector<std::string>& overrides,
                             const std::vector<std::string>& arguments) {
  std::vector<std::string> words = GitCommand(top);
  words.insert(words.end(), overrides.begin(), overrides.end());
  words.insert(words.end(), arguments.begin(), arguments.end());
  auto output = RunProgram(words, kLimit, GitEnvironment(top));
  if (!output)
    return Unavailable("git could not be started.", "Install git, or check without diff.");
  if (!output->exit_code) {
    return DeadlineExceeded("git did not answer within " + std::to_string(kLimit.count()) + " s.",
                            "Check fewer files, or without diff.");
  }
  if (output->out.size() > ChildProcess::kMostLineBytes)
    return InvalidInput("The diff is too large.", "Name a nearer revision.");
  return output;
}

Error Refused(const std::string& what, const ProgramOutput& output) {
  std::string said = output.err.substr(0, output.err.find('\n'));
  return InvalidInput("git " + what + ": " + EscapeControl(said, 300),
                      "Run the same git command in that folder to see more.");
}

// Filters of the repository would be run on files that have changed: they are set to nothing.
Result<std::vector<std::string>> WithoutFilters(const std::string& top) {
  MPN_TRY_ASSIGN(auto names,
                 RunGit(top, {}, {"config", "--name-only", "--get-regexp", "^filter\\."}));
  std::vector<std::string> overrides;
  for (std::string_view rest = names.out; !rest.empty();) {
    const size_t end = rest.find('\n');
    const std::string_view name = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (name.find('=') != std::string_view::npos)
      return InvalidInput("The repository names a filter that cannot be turned off.");
    const std::string_view key = name.substr(name.rfind('.') + 1);
    const char* value = key == "required" ? "=false" : "=";
    overrides.insert(overrides.end(), {"-c", std::string(name) + value});
  }
  return overrides;
}

// "a/x y" or "\"a/x\\ty\"" as git writes it, without the prefix a/ or b/; empty for /dev/null.
std::string ReadPath(std::string_view text, bool has_prefix) {
  std::string path;
  if (text.starts_with('"')) {
    for (size_t i = 1; i < text.size() && text[i] != '"'; ++i) {
      if (text[i] != '\\') {
        path += text[i];
        continue;
      }
      if (++i == text.size()) break;
      constexpr std::string_view kNames = "abtnvfr\"\\";
      constexpr std::string_view kBytes = "\a\b\t\n\v\f\r\"\\";
      if (const size_t at = kNames.find(text[i]); at != std::string_view::npos) {
        path += kBytes[at];
      } else {
        int value = 0;
        const size_t end = std::min(text.size(), i + 3);
        std::from_chars(text.data() + i, text.data() + end, value, 8);
        path += static_cast<char>(value);
        i = end - 1;
      }
    }
  } else {
    path = std::string(text.substr(0, text.find('\t')));
  }
  if (!has_prefix) return path;
  return path == "/dev/null" || path.size() < 2 ? "" : path.substr(2);
}

// "12,3" as a first line and a count, which is 1 where it is not told.
std::pair<int, int> ReadRange(std::string_view text) {
  int first = 0;
  int count = 1;
  const char* const end = text.data() + text.size();
  const auto [comma, error] = std::from_chars(text.data(), end, first);
  if (error == std::errc() && comma != end && *comma == ',') std::from_chars(comma + 1, end, count);
  return {first, count};
}

}  // namespace

std::map<std::string, FileDiff> ParseDiff(std::string_view text) {
  std::map<std::string, FileDiff> files;
  FileDiff file;
  std::string path;
  int content = 0;  // lines of the hunk that are still to come: they may look like anything
  const auto finish = [&] {
    if (!path.empty()) files[path] = std::move(file);
    file = {};
    path.clear();
  };
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (content > 0 && (line.starts_with('+') || line.starts_with('-'))) {
      --content;
    } else if (line.starts_with("diff --git ")) {
      content = 0;
      finish();
    } else if (line.starts_with("rename from ")) {
      file.old_path = ReadPath(line.substr(12), false);
    } else if (line.starts_with("rename to ")) {
      path = ReadPath(line.substr(10), false);
    } else if (line.starts_with("--- ")) {
      file.old_path = ReadPath(line.substr(4), true);
      file.is_new = file.old_path.empty();
    } else if (line.starts_with("+++ ")) {
      path = ReadPath(line.substr(4), true);
    } else if (line.starts_with("@@ -")) {
      const size_t plus = line.find('+');
      const size_t close = line.find(" @@", 4);
      if (plus == std::string_view::npos || close == std::string_view::npos || plus > close)
        continue;
      const auto [unused, removed] = ReadRange(line.substr(4, plus - 5));
      const auto [first, added] = ReadRange(line.substr(plus + 1, close - plus - 1));
      content = removed + added;
      if (added > 0) file.ranges.emplace_back(first, first + added - 1);
    }
  }
  finish();
  return files;
}

Result<RepositoryDiff> DiffRepository(const std::string& top, const std::string& revision,
                                      const std::vector<std::string>& files) {
  const std::string shown = "'" + EscapeControl(revision, 100) + "'";
  if (revision.empty() || revision.starts_with('-') ||
      revision.find_first_of(std::string_view("\0\n", 2)) != std::string::npos)
    return InvalidInput(shown + " is no git revision.", "Name a commit, a branch or a tag.");
  MPN_TRY_ASSIGN(auto commit, RunGit(top, {},
                                     {"rev-parse", "--verify", "--quiet", "--end-of-options",
                                      revision + "^{commit}"}));
  if (*commit.exit_code != 0 && !commit.err.empty()) return Refused("rev-parse", commit);
  if (*commit.exit_code != 0) {
    return NotFound("There is no revision " + shown + " in " + EscapeControl(top, 300) + ".",
                    "Name a commit, a branch or a tag; `git log` lists commits.");
  }
  RepositoryDiff diff;
  diff.commit = commit.out.substr(0, commit.out.find('\n'));
  MPN_TRY_ASSIGN(auto overrides, WithoutFilters(top));

  // All files of the same kinds, so that a renaming is seen from wherever it comes.
  std::set<std::string> specs;
  for (const std::string& file : files) {
    const std::string name = file.substr(file.rfind('/') + 1);
    const size_t dot = name.rfind('.');
    const bool plain = dot != std::string::npos && dot > 0 &&
                       name.find_first_of("*?[\\", dot) == std::string::npos;
    specs.insert(plain ? ":(top)*" + name.substr(dot) : ":(top,literal)" + file);
  }
  std::vector<std::string> words = {"diff",
                                    "--unified=0",
                                    "--inter-hunk-context=0",
                                    "--find-renames",
                                    "--text",
                                    "--no-color",
                                    "--no-ext-diff",
                                    "--no-textconv",
                                    "--no-relative",
                                    "--ignore-submodules=all",
                                    "--src-prefix=a/",
                                    "--dst-prefix=b/",
                                    diff.commit,
                                    "--"};
  words.insert(words.end(), specs.begin(), specs.end());
  MPN_TRY_ASSIGN(auto changes, RunGit(top, overrides, words));
  if (*changes.exit_code != 0) return Refused("diff", changes);
  diff.files = ParseDiff(changes.out);

  words = {"ls-files", "--"};
  words.insert(words.end(), specs.begin(), specs.end());
  MPN_TRY_ASSIGN(auto tracked, RunGit(top, overrides, words));
  if (*tracked.exit_code != 0) return Refused("ls-files", tracked);
  for (std::string_view rest = tracked.out; !rest.empty();) {
    const size_t end = rest.find('\n');
    diff.tracked.insert(ReadPath(rest.substr(0, end), false));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return diff;
}

std::optional<std::string> ReadBlob(const std::string& top, const std::string& commit,
                                    const std::string& path) {
  auto blob = RunGit(top, {}, {"cat-file", "blob", commit + ":" + path});
  if (!blob || *blob->exit_code != 0) return std::nullopt;
  return std::move(blob->out);
}

}  // namespace mpnanny::check
