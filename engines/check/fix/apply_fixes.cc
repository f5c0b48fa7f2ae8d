#include "engines/check/fix/apply_fixes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/replace_file.h"
#include "base/text.h"
#include "base/unified_diff.h"
#include "engines/check/engine.h"
#include "engines/check/syntax/syntax.h"

namespace mpnanny::check {
namespace {

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

bool Parses(const std::string& text) {
  const auto syntax = Syntax::Parse(text, {});
  return syntax && !syntax->has_error();
}

}  // namespace

Result<Afterwards> ApplyFixes(const Json& structured, bool write) {
  std::map<std::string, std::vector<const Json*>> by_path;
  int without = 0;
  for (const Json& finding : structured["findings"]) {
    if (finding["edits"].empty()) {
      ++without;
    } else {
      by_path[finding["path"].get<std::string>()].push_back(&finding);
    }
  }
  Afterwards done;
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
    done.shown += UnifiedDiff(EscapeControl(path, 500), *before, after);
    if (write) {
      if (auto replaced = ReplaceFile(path, after); !replaced) return std::move(replaced).error();
    }
    repaired += here;
    ++files;
  }
  for (const std::string& one : left) {
    done.notes += "not fixed: " + EscapeControl(one, 600) + "\n";
  }
  const auto count = [](int number, const char* noun) {
    return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
  };
  done.notes += (write ? "Fixed " : "Would fix ") + count(repaired, "finding") + " in " +
                count(files, "file") + "; " + count(without, "finding") +
                (without == 1 ? " has" : " have") +
                " no edit that leaves the other paths as they were.\n";
  return done;
}

}  // namespace mpnanny::check
