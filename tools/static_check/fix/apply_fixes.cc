#include "tools/static_check/fix/apply_fixes.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/new_file.h"
#include "base/text.h"
#include "tools/static_check/engine.h"
#include "tools/static_check/syntax/syntax.h"

namespace mpnanny::static_check {
namespace {

constexpr int kContextLines = 2;

struct Change {
  size_t begin = 0, end = 0;  // bytes
  std::string text;
};

// The byte of a line and a column that counts code points; nullopt beyond the text.
std::optional<size_t> ByteAt(std::string_view text, int line, int column) {
  size_t at = 0;
  for (int skipped = 1; skipped < line; ++skipped) {
    at = text.find('\n', at);
    if (at == std::string_view::npos) return std::nullopt;
    ++at;
  }
  for (int skipped = 1; skipped < column; ++skipped) {
    if (at >= text.size()) return std::nullopt;
    ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  }
  return at;
}

// The edits of one finding; nullopt where the file is no longer what was checked.
std::optional<std::vector<Change>> ChangesOf(const Json& finding, std::string_view text) {
  const std::string seen = ValueAt(finding, {"source", "text"}).is_string()
                               ? ValueAt(finding, {"source", "text"}).get<std::string>()
                               : "";
  const auto line = ByteAt(text, finding["line"].get<int>(), 1);
  if (!line || text.substr(*line, text.find('\n', *line) - *line).find(seen) == std::string::npos)
    return std::nullopt;
  std::vector<Change> changes;
  for (const Json& edit : finding["edits"]) {
    const auto begin = ByteAt(text, edit["line"].get<int>(), edit["column"].get<int>());
    const auto end = ByteAt(text, edit["end_line"].get<int>(), edit["end_column"].get<int>());
    if (!begin || !end || *end < *begin) return std::nullopt;
    changes.push_back({*begin, *end, edit["text"].get<std::string>()});
  }
  return changes;
}

bool Overlap(const std::vector<Change>& made, const std::vector<Change>& more) {
  for (const Change& a : made) {
    for (const Change& b : more) {
      const bool same = a.begin == b.begin && a.end == b.end && a.text == b.text;
      if (!same && (a.begin == b.begin || (a.begin < b.end && b.begin < a.end))) return true;
    }
  }
  return false;
}

std::string Applied(const std::string& text, std::vector<Change> changes) {
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::pair(a.begin, a.end) > std::pair(b.begin, b.end);
  });
  std::string out = text;
  for (size_t i = 0; i < changes.size(); ++i) {
    const Change& one = changes[i];
    const bool again = i > 0 && changes[i - 1].begin == one.begin && changes[i - 1].end == one.end;
    if (!again) out.replace(one.begin, one.end - one.begin, one.text);
  }
  return out;
}

std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

// A unified diff: what is equal at both ends is left out, and runs of changed lines are found by
// the longest common part of what is between.
std::string Diff(const std::string& path, const std::string& before, const std::string& after) {
  const auto a = LinesOf(before);
  const auto b = LinesOf(after);
  // Edits are few and small, so the next equal line is near.
  struct Hunk {
    size_t a_begin, a_end, b_begin, b_end;
  };
  std::vector<Hunk> hunks;
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      ++i;
      ++j;
      continue;
    }
    size_t best_i = a.size();
    size_t best_j = b.size();
    for (size_t sum = 1; sum < 200 && best_i == a.size() && best_j == b.size(); ++sum) {
      for (size_t di = 0; di <= sum; ++di) {
        const size_t x = i + di;
        const size_t y = j + sum - di;
        if (x < a.size() && y < b.size() && a[x] == b[y]) {
          best_i = x;
          best_j = y;
          break;
        }
      }
    }
    hunks.push_back({i, best_i, j, best_j});
    i = best_i;
    j = best_j;
  }
  std::string out = "--- " + path + "\n+++ " + path + "\n";
  const auto line = [&](char mark, std::string_view text) {
    out += mark + std::string(text);
    if (text.empty() || text.back() != '\n') out += "\n\\ No newline at end of file\n";
  };
  for (size_t first = 0; first < hunks.size();) {
    size_t last = first;
    while (last + 1 < hunks.size() &&
           hunks[last + 1].a_begin - hunks[last].a_end <= 2 * kContextLines)
      ++last;
    const size_t before_first = std::min<size_t>(hunks[first].a_begin, kContextLines);
    const size_t behind_last = std::min<size_t>(a.size() - hunks[last].a_end, kContextLines);
    const size_t a_begin = hunks[first].a_begin - before_first;
    const size_t b_begin = hunks[first].b_begin - before_first;
    const size_t a_count = hunks[last].a_end + behind_last - a_begin;
    const size_t b_count = hunks[last].b_end + behind_last - b_begin;
    out += "@@ -" + std::to_string(a_begin + 1) + "," + std::to_string(a_count) + " +" +
           std::to_string(b_begin + 1) + "," + std::to_string(b_count) + " @@\n";
    size_t at = a_begin;
    for (size_t one = first; one <= last; ++one) {
      for (; at < hunks[one].a_begin; ++at) line(' ', a[at]);
      for (; at < hunks[one].a_end; ++at) line('-', a[at]);
      for (size_t added = hunks[one].b_begin; added < hunks[one].b_end; ++added)
        line('+', b[added]);
    }
    for (; at < hunks[last].a_end + behind_last; ++at) line(' ', a[at]);
    first = last + 1;
  }
  return out;
}

bool Parses(const std::string& text) {
  const auto syntax = Syntax::Parse(text, {});
  return syntax && !syntax->has_error();
}

// The new text takes the file's place at once; who reads it sees the old one or the new one.
Result<void> Replace(const std::string& path, const std::string& text) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path target = fs::canonical(path, error);  // a link stays a link
  if (error) return NotFound(EscapeControl(path, 300) + ": " + error.message());
  const fs::path beside = target.string() + ".mpnanny-fix";
  {
    Result<NewFile> file = NewFile::Create(beside.string());
    if (!file) return std::move(file).error();
    if (auto written = file->Append(text); !written) {
      fs::remove(beside, error);
      return std::move(written).error();
    }
  }
  fs::permissions(beside, fs::status(target).permissions(), error);
  fs::rename(beside, target, error);
  if (!error) return {};
  const std::string why = error.message();
  fs::remove(beside, error);
  return Unavailable(EscapeControl(path, 300) + " cannot be replaced: " + why + ".");
}

}  // namespace

Result<std::string> ApplyFixes(const Json& structured, bool write) {
  std::map<std::string, std::vector<const Json*>> by_path;
  int without = 0;
  for (const Json& finding : structured["findings"]) {
    if (finding["edits"].empty()) {
      ++without;
    } else {
      by_path[finding["path"].get<std::string>()].push_back(&finding);
    }
  }
  std::string text;
  int repaired = 0;
  int files = 0;
  std::vector<std::string> left;
  for (const auto& entry : by_path) {
    // Names, not structured bindings: clang 14 does not let a lambda capture those.
    const std::string& path = entry.first;
    const std::vector<const Json*>& findings = entry.second;
    const auto leave = [&](const Json& finding, const char* why) {
      left.push_back(path + ":" + DumpJson(finding["line"]) + ": " + why);
    };
    if (path.find(".ipynb:cell ") != std::string::npos) {
      for (const Json* one : findings) leave(*one, "in a notebook; edit the cell by hand.");
      continue;
    }
    const auto before = ReadFile(path, kMaxSourceBytes);
    if (!before) {
      for (const Json* one : findings) leave(*one, "the file cannot be read any more.");
      continue;
    }
    std::vector<Change> made;
    int here = 0;
    for (const Json* one : findings) {
      const auto changes = ChangesOf(*one, *before);
      if (!changes) {
        leave(*one, "the file has changed since it was checked.");
      } else if (Overlap(made, *changes)) {
        leave(*one, "overlaps another edit; run --fix again.");
      } else {
        std::vector<Change> with = made;
        with.insert(with.end(), changes->begin(), changes->end());
        if (Parses(*before) && !Parses(Applied(*before, with))) {
          leave(*one, "the result would not parse.");
          continue;
        }
        made = std::move(with);
        ++here;
      }
    }
    const std::string after = Applied(*before, made);
    if (after == *before) continue;
    text += Diff(EscapeControl(path, 500), *before, after);
    if (write) {
      if (auto replaced = Replace(path, after); !replaced) return std::move(replaced).error();
    }
    repaired += here;
    ++files;
  }
  for (const std::string& one : left) text += "not fixed: " + EscapeControl(one, 600) + "\n";
  const auto count = [](int number, const char* noun) {
    return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
  };
  text += (write ? "Fixed " : "Would fix ") + count(repaired, "finding") + " in " +
          count(files, "file") + "; " + count(without, "finding") +
          (without == 1 ? " has" : " have") +
          " no edit that leaves the other paths as they were.\n";
  return text;
}

}  // namespace mpnanny::static_check
