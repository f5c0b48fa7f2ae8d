#include "engines/diagnosis/facts/log_hits.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <string>

#include "base/text.h"
#include "engines/runs/import/log_line.h"

namespace mpnanny::diagnosis {
namespace {

constexpr size_t kHitLineBytes = 400;

// A pattern that mere figures of a line can fit ("loss scale* e-0" by a learning rate) tells of
// trouble only where the figures do.
bool FiguresAreFine(const imports::Figures& figures) {
  return figures.loss && std::isfinite(*figures.loss) && !figures.bad_part &&
         (!figures.grad_norm || std::isfinite(*figures.grad_norm));
}

// "init_method_std ........ 0.02", "--fp16 True", "Namespace(…": what a program was started with,
// as it prints it before its first step.
bool IsOption(std::string_view line) {
  const size_t start = line.find_first_not_of(" \t");
  if (start == std::string_view::npos) return false;
  line.remove_prefix(start);
  if (line.starts_with("Namespace(") || line.starts_with("--")) return true;
  size_t end = 0;
  const auto in_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  };
  while (end < line.size() && in_name(line[end])) ++end;
  // "RuntimeError: …" is none.
  if (end == 0 || !std::islower(static_cast<unsigned char>(line.front()))) return false;
  const size_t value = line.find_first_not_of(" .:=\t\"'", end);
  if (value == std::string_view::npos || value == end) return false;
  return line.find_first_of(" \t", value) == std::string_view::npos;
}

// A pattern without a letter ("!!!!!!!!") is text of its own; behind a word it is the word's.
bool IsEndOfWord(const std::string& lower, const std::string& literal) {
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  if (std::any_of(literal.begin(), literal.end(), is_letter)) return false;
  const size_t at = lower.find(literal);
  return at != std::string::npos && at > 0 && is_letter(lower[at - 1]);
}

// A signal, and a part of it that every line it fits holds: most lines are ruled out by that alone.
struct Sought {
  const cases::Signal* signal;
  std::string literal;  // in lower case; of the words and their parts between wildcards the longest
};

Sought Seek(const cases::Signal& signal) {
  const std::string lower = LowerCase(signal.name);
  std::string_view longest;
  for (size_t at = 0; at < lower.size();) {
    const size_t end = std::min(lower.find_first_of("*? ", at), lower.size());
    if (end - at > longest.size()) longest = std::string_view(lower).substr(at, end - at);
    at = end + 1;
  }
  return {&signal, std::string(longest)};
}

}  // namespace

Result<void> FindLogHits(imports::ByteSource text, const cases::CaseLibrary& library,
                         const CancelToken& cancel, std::vector<LogHit>& hits) {
  std::vector<Sought> signals;
  for (const cases::Case& entry : library.all()) {
    for (const cases::Signal& signal : entry.signals) {
      if (signal.kind == cases::Signal::Kind::kLog) signals.push_back(Seek(signal));
    }
  }
  std::map<std::string, LogHit> best;
  for (LogHit& hit : hits) best[hit.signal] = std::move(hit);
  imports::LineReader lines(std::move(text));
  bool began = false;  // a step was logged
  for (int64_t read = 1; const auto line = lines.Next(); ++read) {
    if (read % 1024 == 0) {
      MPN_TRY(cancel.Check());
    }
    if (line->empty() || imports::IsOfMonitor(*line)) continue;
    const std::string lower = LowerCase(*line);
    if (!began && lower.find("loss") != std::string::npos) {
      const imports::Figures figures = imports::ReadFigures(*line);
      began = figures.loss && figures.step;
    }
    const bool option = !began && IsOption(*line);
    for (const auto& [signal, literal] : signals) {
      if (lower.find(literal) == std::string::npos || !cases::FitsLogLine(*signal, *line)) continue;
      if (option || IsEndOfWord(lower, literal)) continue;
      LogHit& hit = best[signal->text];
      if (!hit.line.empty() && hit.weight >= signal->weight && hit.telling) continue;
      hit = {signal->text, signal->weight, std::string(line->substr(0, kHitLineBytes)), false,
             !FiguresAreFine(imports::ReadFigures(*line))};
    }
  }
  hits.clear();
  for (auto& [signal, hit] : best) hits.push_back(std::move(hit));
  return {};
}

}  // namespace mpnanny::diagnosis
