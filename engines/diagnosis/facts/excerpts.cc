#include "engines/diagnosis/facts/excerpts.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "base/text.h"

namespace mpnanny::diagnosis {
namespace {

constexpr int64_t kExcerptLines = 5;  // before and after the named line
constexpr size_t kMaxExcerpts = 4;
constexpr size_t kLineBytes = 120;

// Whether the path of a source that was given is the one that the run names: the run may have seen
// it under another root, so the longest common end decides, and the file's name must be in it.
bool IsFile(const std::string& given, const std::string& named) {
  const std::filesystem::path a(given), b(named);
  return a.filename() == b.filename() && !a.filename().empty();
}

size_t CommonEnd(const std::string& a, const std::string& b) {
  size_t n = 0;
  while (n < a.size() && n < b.size() && a[a.size() - 1 - n] == b[b.size() - 1 - n]) ++n;
  return n;
}

const check::Source* FindSource(const std::vector<check::Source>& sources,
                                const std::string& named) {
  const check::Source* best = nullptr;
  for (const check::Source& source : sources) {
    if (IsFile(source.path, named) &&
        (!best || CommonEnd(source.path, named) > CommonEnd(best->path, named))) {
      best = &source;
    }
  }
  return best;
}

Excerpt Around(const std::string& text, const std::string& place, int64_t line) {
  Excerpt excerpt{EscapeControl(place, 200), std::max<int64_t>(1, line - kExcerptLines), {}};
  int64_t number = 1;
  for (size_t begin = 0; begin < text.size() && number <= line + kExcerptLines; ++number) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    if (number >= excerpt.first_line) {
      excerpt.lines.push_back(EscapeControl(text.substr(begin, end - begin), kLineBytes));
    }
    begin = end + 1;
  }
  return excerpt;
}

}  // namespace

Place ParsePlace(const std::string& source) {
  Place place;
  const size_t colon = source.rfind(':');
  if (colon == std::string::npos) return place;
  const char* const begin = source.data() + colon + 1;
  std::from_chars(begin, source.data() + source.size(), place.line);
  place.file = std::filesystem::path(source.substr(0, colon)).filename().generic_string();
  return place;
}

std::vector<std::string> NamedLines(const Facts& facts) {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& line) {
    if (!line.empty() && std::find(lines.begin(), lines.end(), line) == lines.end()) {
      lines.push_back(line);
    }
  };
  for (const Mechanism& mechanism : facts.measured.mechanisms) {
    for (const std::string& line : LinesOf(facts.measured.Lead(mechanism).finding)) add(line);
  }
  if (facts.onset) add(facts.onset->source);
  for (const MeasuredFinding& each : facts.measured.minor) add(each.finding.source);
  return lines;
}

void AddExcerpts(const std::vector<check::Source>& sources, Facts& facts) {
  for (const std::string& named : NamedLines(facts)) {
    if (facts.excerpts.size() == kMaxExcerpts) return;
    const Place place = ParsePlace(named);
    if (place.line <= 0) continue;
    const bool shown =
        std::any_of(facts.excerpts.begin(), facts.excerpts.end(), [&](const Excerpt& excerpt) {
          const Place other = ParsePlace(excerpt.place);
          return other.file == place.file && std::abs(other.line - place.line) <= kExcerptLines;
        });
    const auto* source = FindSource(sources, named.substr(0, named.rfind(':')));
    if (source && !shown) facts.excerpts.push_back(Around(source->text, named, place.line));
  }
}

}  // namespace mpnanny::diagnosis
