#include "engines/check/inputs/changed_lines.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>

#include "base/text.h"
#include "engines/check/inputs/git_diff.h"
#include "engines/check/inputs/git_folder.h"
#include "engines/check/inputs/notebook.h"

namespace mpnanny::check {
namespace {

namespace fs = std::filesystem;

// More cells than this of the table that aligns two texts: every line counts as new that is nowhere
// in the text before.
constexpr size_t kMostTable = 4u << 20;

std::vector<std::string_view> SplitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

bool IsNotebook(const Source& source) { return source.path.ends_with(".ipynb"); }

}  // namespace

std::vector<bool> NewLines(const std::vector<std::string_view>& before,
                           const std::vector<std::string_view>& after) {
  std::vector<bool> is_new(after.size(), true);
  size_t head = 0;
  while (head < before.size() && head < after.size() && before[head] == after[head])
    is_new[head++] = false;
  size_t tail = 0;
  while (head + tail < before.size() && head + tail < after.size() &&
         before[before.size() - 1 - tail] == after[after.size() - 1 - tail]) {
    is_new[after.size() - 1 - tail++] = false;
  }
  const size_t rows = before.size() - head - tail;
  const size_t columns = after.size() - head - tail;
  if (rows == 0 || columns == 0) return is_new;
  if (rows >= UINT16_MAX || columns >= UINT16_MAX || rows * columns > kMostTable) {
    const std::set<std::string_view> known(before.begin(), before.end());
    for (size_t i = head; i < head + columns; ++i) is_new[i] = !known.contains(after[i]);
    return is_new;
  }
  // The longest common subsequence of the rest: length[i][j] is that of what follows i and j.
  std::vector<uint16_t> length((rows + 1) * (columns + 1), 0);
  const auto at = [&](size_t i, size_t j) -> uint16_t& { return length[i * (columns + 1) + j]; };
  for (size_t i = rows; i-- > 0;) {
    for (size_t j = columns; j-- > 0;) {
      at(i, j) = before[head + i] == after[head + j] ? static_cast<uint16_t>(at(i + 1, j + 1) + 1)
                                                     : std::max(at(i + 1, j), at(i, j + 1));
    }
  }
  for (size_t i = 0, j = 0; i < rows && j < columns;) {
    if (before[head + i] == after[head + j]) {
      is_new[head + j] = false;
      ++i;
      ++j;
    } else if (at(i + 1, j) >= at(i, j + 1)) {
      ++i;
    } else {
      ++j;
    }
  }
  return is_new;
}

Result<ChangedLines> ChangedLines::Since(const std::string& revision,
                                         const std::vector<Source>& sources,
                                         const AllowedRoots& roots) {
  std::map<std::string, std::string> tops;  // by the files' folders
  std::map<std::string, std::vector<const Source*>> by_top;
  for (const Source& source : sources) {
    const std::string folder = fs::path(source.file).parent_path().generic_string();
    const auto [it, is_new] = tops.try_emplace(folder);
    if (is_new) {
      auto top = RepositoryOf(folder, roots);
      if (!top) return top.error();
      it->second = *std::move(top);
    }
    if (it->second.empty()) {
      return InvalidInput("'" + EscapeControl(source.path, 200) + "' lies in no git repository.",
                          "Check it without diff.");
    }
    by_top[it->second].push_back(&source);
  }
  ChangedLines changed;
  for (const auto& [top, files] : by_top) {
    const size_t prefix = top.ends_with('/') ? top.size() : top.size() + 1;
    std::vector<std::string> names;
    for (const Source* source : files) names.push_back(source->file.substr(prefix));
    MPN_TRY_ASSIGN(const auto diff, DiffRepository(top, revision, names));
    for (size_t i = 0; i < files.size(); ++i) {
      const auto known = diff.files.find(names[i]);
      if (!diff.tracked.contains(names[i])) {
        changed.Add(*files[i], {true}, nullptr);
      } else if (known != diff.files.end()) {
        const FileDiff& file = known->second;
        std::optional<std::string> before;
        if (IsNotebook(*files[i]) && !file.is_new && !file.ranges.empty())
          before = ReadBlob(top, diff.commit, file.old_path);
        changed.Add(*files[i], {file.is_new, file.ranges}, before ? &*before : nullptr);
      }
    }
  }
  return changed;
}

void ChangedLines::Add(const Source& source, Lines lines, const std::string* before) {
  if (!IsNotebook(source)) {
    // git knows no line ends but '\n'.
    const size_t cr = source.text.find('\r');
    const bool lone = cr != std::string::npos && source.text.compare(cr, 2, "\r\n") != 0;
    lines.all = lines.all || (lone && !lines.ranges.empty());
    by_path_[source.path] = std::move(lines);
    return;
  }
  // git's lines are those of the JSON: the code is compared instead.
  const auto now = ReadNotebook(source.text);
  if (!now || (!lines.all && lines.ranges.empty())) return;
  const auto then = before == nullptr ? now : ReadNotebook(*before);
  const bool all = before == nullptr || !then;
  const std::vector<std::string_view> now_lines = SplitLines(now->text);
  const std::vector<bool> is_new =
      all ? std::vector<bool>(now_lines.size(), true) : NewLines(SplitLines(then->text), now_lines);
  for (const NotebookCell& cell : now->cells) {
    Lines& in_cell = by_path_[source.path + ":cell " + std::to_string(cell.number)];
    const size_t next = static_cast<size_t>(&cell - now->cells.data()) + 1;
    const int end = next < now->cells.size() ? now->cells[next].first_line
                                             : static_cast<int>(is_new.size()) + 1;
    for (int line = cell.first_line; line < end; ++line) {
      const int own = line - cell.first_line + 1;
      if (is_new[static_cast<size_t>(line) - 1]) in_cell.ranges.emplace_back(own, own);
    }
  }
}

bool ChangedLines::Touches(std::string_view path, int line, int end_line) const {
  const auto it = by_path_.find(path);
  if (it == by_path_.end()) return false;
  return it->second.all ||
         std::any_of(it->second.ranges.begin(), it->second.ranges.end(), [&](const auto& range) {
           return range.first <= end_line && line <= range.second;
         });
}

}  // namespace mpnanny::check
