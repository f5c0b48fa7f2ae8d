#include "engines/diagnosis/answer/shorten.h"

#include <algorithm>
#include <cstdlib>

namespace mpnanny::diagnosis {

std::string Shorten(const std::string& text, size_t bytes) {
  std::string line;
  for (const char c : text) {
    const char shown = c == '\n' ? ' ' : c;
    if (shown == ' ' && (line.empty() || line.back() == ' ')) continue;
    line += shown;
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  if (line.size() <= bytes) return line;
  size_t cut = bytes;
  while (cut > 0 && (static_cast<unsigned char>(line[cut]) & 0xC0) == 0x80)
    --cut;  // whole characters
  const std::string head = line.substr(0, cut);
  if (const size_t stop = head.rfind(". "); stop != std::string::npos && stop > bytes / 2) {
    return head.substr(0, stop + 1) + " …";
  }
  const size_t blank = head.rfind(' ');
  return head.substr(0, blank == std::string::npos || blank < bytes / 2 ? cut : blank) + "…";
}

std::vector<Moment> Thinned(const std::vector<Moment>& moments, size_t most) {
  if (moments.size() <= most) return moments;
  size_t centre = moments.size() - 1;
  for (size_t i = 0; i < moments.size(); ++i) {
    if (moments[i].what.starts_with("FIRST BAD")) centre = i;
  }
  std::vector<size_t> order(moments.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto rank = [&](size_t i) {
    if (i == 0 || i + 1 == moments.size()) return size_t{0};
    return i > centre ? i - centre : centre - i;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rank(a) < rank(b); });
  order.resize(most);
  std::sort(order.begin(), order.end());
  std::vector<Moment> kept;
  for (const size_t i : order) kept.push_back(moments[i]);
  return kept;
}

}  // namespace mpnanny::diagnosis
