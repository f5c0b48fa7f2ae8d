#include "base/unified_diff.h"

#include <algorithm>
#include <vector>

namespace mpnanny {
namespace {

constexpr size_t kContextLines = 2;

std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

}  // namespace

std::string UnifiedDiff(const std::string& path, std::string_view before, std::string_view after) {
  if (before == after) return "";
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
    const auto range = [](size_t begin, size_t count) {  // no lines: those behind this one
      return std::to_string(count == 0 ? begin : begin + 1) + "," + std::to_string(count);
    };
    out += "@@ -" + range(a_begin, a_count) + " +" + range(b_begin, b_count) + " @@\n";
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

}  // namespace mpnanny
