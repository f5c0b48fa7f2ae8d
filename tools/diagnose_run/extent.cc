#include "tools/diagnose_run/extent.h"

#include <cmath>

#include "tools/diagnose_run/shorten.h"

namespace mpnanny::diagnose_run {

std::vector<std::string> Cut(const std::vector<std::string>& sentences, size_t most, size_t bytes) {
  std::vector<std::string> cut;
  for (const std::string& sentence : sentences) {
    if (cut.size() == most) break;
    cut.push_back(Shorten(sentence, bytes));
  }
  return cut;
}

std::string TitleOf(const Hypothesis& h) {
  return h.title.empty() && h.cause ? h.cause->title : h.title;
}

std::string FixOf(const Hypothesis& h, size_t bytes) {
  if (h.fix.empty()) return Shorten(h.cause->fix, bytes);
  if (!h.cause) return Shorten(h.fix, bytes);
  return Shorten(h.fix, bytes) + " The case says: " + Shorten(h.cause->fix, bytes / 2);
}

double Rounded(double confidence) { return std::round(confidence * 100) / 100; }

}  // namespace mpnanny::diagnose_run
