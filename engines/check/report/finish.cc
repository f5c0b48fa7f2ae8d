#include "engines/check/report/finish.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/text.h"

namespace mpnanny::check {
namespace {

Bytes PlaceOf(const Unit& unit, const RawFinding& raw) {
  if (raw.node == kNoNode) return raw.where;
  return {unit.facts->syntax[raw.node].begin, unit.facts->syntax[raw.node].end};
}

// The line around a finding, for people to see: without what stands in front of it, and of a long
// one only a part.
void SetExcerpt(std::string_view line, Finding* finding) {
  constexpr size_t kMostBytes = 400;
  constexpr size_t kBefore = 60;
  const auto inside_character = [&](size_t at) {
    return at < line.size() && (static_cast<unsigned char>(line[at]) & 0xC0) == 0x80;
  };
  size_t begin = std::min(line.find_first_not_of(" \t\f"), line.size());
  if (line.size() - begin > kMostBytes) {
    size_t at = 0;  // of the finding
    for (int column = 1; column < finding->column && at < line.size(); ++column) {
      ++at;
      while (inside_character(at)) ++at;
    }
    if (at > begin + kBefore) begin = at - kBefore;
    while (inside_character(begin)) ++begin;
  }
  size_t size = std::min(line.size() - begin, kMostBytes);
  while (inside_character(begin + size)) --size;
  finding->excerpt = std::string(line.substr(begin, size));
  finding->excerpt_column =
      std::max(1, finding->column - static_cast<int>(CountCodePoints(line.substr(0, begin))));
}

// An edit's text with the line ends that the file has.
std::string WithLineEnds(const Unit& unit, const std::string& text) {
  const std::string& file = unit.Text();
  const size_t first = file.find('\n');
  if (first == std::string::npos || first == 0 || file[first - 1] != '\r') return text;
  std::string out;
  for (const char c : text) out += c == '\n' ? std::string("\r\n") : std::string(1, c);
  return out;
}

Finding FinishOne(const Unit& unit, const RawFinding& raw, const TextIndex& index,
                  const RulePage& page, Severity severity) {
  const Bytes where = PlaceOf(unit, raw);
  const Position begin = index.At(where.begin);
  const Position end = index.At(where.end);
  Finding finding;
  finding.rule = page.id;
  finding.severity = severity;
  finding.confidence = raw.confidence.empty() ? page.confidence : raw.confidence;
  finding.line = begin.line;
  finding.column = begin.column;
  finding.end_line = end.line;
  finding.end_column = end.column;
  SetExcerpt(index.Line(begin.line), &finding);
  finding.path = PathAt(unit, finding.line);
  const int shift = begin.line - finding.line;
  finding.end_line -= shift;
  // A parenthesis that is never closed reaches into the notebook's next cell.
  if (int last = end.line; PathAt(unit, last) != finding.path) {
    finding.end_line = finding.line;
    finding.end_column = static_cast<int>(CountCodePoints(index.Line(begin.line))) + 1;
  }
  finding.message = raw.message.empty() ? page.summary : raw.message;
  if (!raw.only_where.empty()) {
    // A sentence goes on with a small letter; a name keeps its own.
    std::string& message = finding.message;
    const std::string_view word = std::string_view(message).substr(0, message.find(' '));
    if (std::all_of(word.begin() + 1, word.end(), [](unsigned char c) { return std::islower(c); }))
      message[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(message[0])));
    message = "Where `" + raw.only_where + "` holds, " + message;
  }
  finding.why = page.why;
  finding.fix = page.fix;
  finding.cases = page.cases;
  for (const auto& [range, text] : raw.edits) {
    const Position from = index.At(range.first);
    const Position to = index.At(range.second);
    // A notebook's finding has its edits in its own cell, or none: a cell cannot be named in an
    // edit.
    int line = from.line;
    if (PathAt(unit, line) != finding.path) {
      finding.edits.clear();
      break;
    }
    finding.edits.push_back(
        {from.line - shift, from.column, to.line - shift, to.column, WithLineEnds(unit, text)});
  }
  return finding;
}

constexpr const char* kNotProven = "whether it is so: the text does not prove it";

// What is not certain is for a reader to judge.
Candidate AsCandidate(const Finding& finding, const RulePage& page) {
  // By the severity that it has where it is certain; above what a row of the table says of a value
  // of no known type.
  const double score = page.severity == Severity::kError ? 0.65 : 0.6;
  Candidate candidate;
  candidate.path = finding.path;
  candidate.line = finding.line;
  candidate.end_line = finding.end_line;
  candidate.rule = finding.rule;
  candidate.hazard = finding.message;
  candidate.question = "If it is so: " + finding.fix;
  candidate.score = finding.confidence == "low" ? 0.6 * score : score;
  candidate.code = finding.excerpt;
  candidate.unknown.emplace_back(kNotProven);
  return candidate;
}

}  // namespace

void NoteUnused(const Unit& unit, const Suppressions& suppressions, const RuleSet& rules,
                const RuleChoice& choice, std::vector<std::string>* notes) {
  for (const Suppressions::Entry& entry : suppressions.entries()) {
    if (entry.used) continue;
    int line = entry.line;
    std::string note = PathAt(unit, line);
    note += ":" + std::to_string(line) + ": `# mpnanny: ignore";
    note += entry.whole_file ? "-file" : "";
    note += (entry.rule.empty() ? "" : "[" + EscapeControl(entry.rule, 80) + "]") + "`";
    const auto page = std::find_if(rules.pages().begin(), rules.pages().end(),
                                   [&](const RulePage& p) { return p.id == entry.rule; });
    if (!entry.rule.empty() && page == rules.pages().end()) {
      const std::string hint = DidYouMean(entry.rule, rules.Ids());
      note += " names no rule." + (hint.empty() ? "" : " " + hint);
    } else if (!entry.rule.empty() &&
               !choice.wanted[static_cast<size_t>(page - rules.pages().begin())]) {
      continue;
    } else {
      note += " silences nothing.";
    }
    notes->push_back(std::move(note));
  }
}

Finished Finish(const Unit& unit, const TextIndex& index, std::vector<RawFinding> raw,
                const RuleSet& rules, const RuleChoice& choice, const Options& options,
                Suppressions& suppressions) {
  Finished out;
  std::erase_if(raw, [&](const RawFinding& one) { return !choice.wanted[one.rule]; });
  if (raw.empty()) return out;
  std::stable_sort(raw.begin(), raw.end(), [](const RawFinding& a, const RawFinding& b) {
    // Of several at one place the surest is told.
    const bool low_a = a.confidence == "low";
    const bool low_b = b.confidence == "low";
    return std::tie(a.rule, a.node, a.where.begin, low_a, a.guess, a.form) <
           std::tie(b.rule, b.node, b.where.begin, low_b, b.guess, b.form);
  });
  // Lines for which a rule has something surer to say than a guess.
  std::set<std::pair<size_t, int>> surer;
  for (const RawFinding& one : raw) {
    if (one.confidence != "low") surer.insert({one.rule, index.LineAt(PlaceOf(unit, one).begin)});
  }
  const RawFinding* previous = nullptr;
  for (const RawFinding& one : raw) {
    const bool again = previous != nullptr && previous->rule == one.rule &&
                       previous->node == one.node && previous->where.begin == one.where.begin;
    previous = &one;
    if (again || (one.confidence == "low" &&
                  surer.contains({one.rule, index.LineAt(PlaceOf(unit, one).begin)})))
      continue;
    const RulePage& page = rules.pages()[one.rule];
    // Of what a rule itself trusts little, hardly anything was true in code that nobody here knew.
    std::optional<Severity> severity;
    if (!one.guess && one.confidence != "low" && page.confidence != "low")
      severity = choice.severity[one.rule];
    if (!one.form.empty())
      severity = std::min(severity, rules.calibration().Most(page.id, one.form));
    if (!one.only_where.empty()) severity = std::min(severity, std::optional(Severity::kWarning));
    // A comment may silence what is not shown; it is of use nevertheless.
    const Bytes where = PlaceOf(unit, one);
    if (one.node != kNoNode ? suppressions.Silences(one.node, page.id)
                            : suppressions.SilencesLines(index.LineAt(where.begin),
                                                         index.LineAt(where.end), page.id)) {
      ++out.suppressed;
      continue;
    }
    Finding finding = FinishOne(unit, one, index, page, severity.value_or(Severity::kInfo));
    if (!severity) {
      out.candidates.push_back(AsCandidate(finding, page));
    } else if (options.keep && !options.keep(finding)) {
      ++out.not_kept;
    } else {
      ++out.counts[static_cast<size_t>(*severity)];
      if (*severity >= options.min_severity) out.findings.push_back(std::move(finding));
    }
  }
  return out;
}

}  // namespace mpnanny::check
