#include "tools/static_check/finish.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

namespace mpnanny::static_check {
namespace {

// True if the line's comment silences the rule: `# mpnanny: ignore` or `# mpnanny: ignore[rule,
// other]`.
bool IsIgnored(std::string_view line, std::string_view rule) {
  const size_t hash = line.find('#');
  if (hash == std::string_view::npos) return false;
  size_t at = line.find("mpnanny:", hash);
  if (at == std::string_view::npos) return false;
  std::string_view rest = line.substr(at + 8);
  rest = rest.substr(std::min(rest.size(), rest.find_first_not_of(' ')));
  if (!rest.starts_with("ignore")) return false;
  rest.remove_prefix(6);
  if (!rest.starts_with('[')) return true;
  rest =
      rest.substr(1, rest.find(']') == std::string_view::npos ? rest.size() : rest.find(']') - 1);
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    std::string_view name = rest.substr(0, comma);
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (name == rule) return true;
    if (comma == std::string_view::npos) return false;
    rest.remove_prefix(comma + 1);
  }
  return false;
}

void FinishOne(const Unit& unit, const RawFinding& raw, const RuleSet& rules,
               const TextIndex& index, Finished* out) {
  const RulePage& page = rules.pages()[raw.rule];
  const Bytes where = raw.node == kNoNode ? raw.where
                                          : Bytes{unit.facts->syntax[raw.node].begin,
                                                  unit.facts->syntax[raw.node].end};
  const Position begin = index.At(where.begin);
  const Position end = index.At(where.end);
  if (IsIgnored(index.Line(begin.line), page.id) || IsIgnored(index.Line(end.line), page.id)) {
    ++out->suppressed;
    return;
  }
  Finding finding;
  finding.rule = page.id;
  finding.severity = page.severity;
  finding.confidence = raw.confidence.empty() ? page.confidence : raw.confidence;
  finding.line = begin.line;
  finding.column = begin.column;
  finding.end_line = end.line;
  finding.end_column = end.column;
  finding.excerpt = std::string(index.Line(begin.line));
  finding.excerpt.erase(0, finding.excerpt.find_first_not_of(" \t"));
  finding.path = PathAt(unit, finding.line);
  const int shift = begin.line - finding.line;
  finding.end_line -= shift;
  finding.message = raw.message.empty() ? page.summary : raw.message;
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
    finding.edits.push_back({from.line - shift, from.column, to.line - shift, to.column, text});
  }
  out->findings.push_back(std::move(finding));
}

}  // namespace

Finished Finish(const Unit& unit, std::vector<RawFinding> raw, const RuleSet& rules,
                const std::vector<bool>& wanted, Severity min_severity) {
  Finished out;
  std::erase_if(raw, [&](const RawFinding& one) {
    return !wanted[one.rule] || rules.pages()[one.rule].severity < min_severity;
  });
  if (raw.empty()) return out;
  std::stable_sort(raw.begin(), raw.end(), [](const RawFinding& a, const RawFinding& b) {
    return std::tie(a.rule, a.node, a.where.begin) < std::tie(b.rule, b.node, b.where.begin);
  });
  std::optional<TextIndex> own;
  const TextIndex& index = unit.facts ? unit.facts->lines : own.emplace(unit.text);
  const RawFinding* previous = nullptr;
  for (const RawFinding& one : raw) {
    const bool again = previous != nullptr && previous->rule == one.rule &&
                       previous->node == one.node && previous->where.begin == one.where.begin;
    previous = &one;
    if (!again) FinishOne(unit, one, rules, index, &out);
  }
  return out;
}

}  // namespace mpnanny::static_check
