#include "engines/check/report/suppressions.h"

#include <algorithm>

#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

constexpr std::string_view kMark = "mpnanny:";

std::string_view Trim(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

bool StandsAlone(std::string_view line) { return Trim(line).starts_with('#'); }

}  // namespace

Suppressions::Suppressions(const Syntax& syntax, const TextIndex& lines)
    : syntax_(&syntax), lines_(lines) {
  if (!Holds(syntax.text(), kMark)) return;
  // The file's own comments stand before its first statement; a docstring may come before them.
  uint32_t first_statement = static_cast<uint32_t>(syntax.text().size());
  for (const NodeId child : syntax.Children(0)) {
    const bool docstring = syntax.Is(child, Kind::kExpressionStatement) &&
                           syntax.Is(syntax[child].first_child, Kind::kString);
    if (docstring) continue;
    first_statement = syntax[child].begin;
    break;
  }
  for (NodeId id = 0; id < syntax.size(); ++id) {
    if (syntax[id].kind != Kind::kComment) continue;
    const int line = lines.LineAt(syntax[id].begin);
    const bool alone = StandsAlone(lines.Line(line));
    if (alone) comment_lines_.push_back(line);
    Read(syntax.Text(id), line, alone, syntax[id].begin < first_statement);
  }
}

Suppressions::Suppressions(const TextIndex& lines) : lines_(lines) {
  bool at_top = true;
  for (int line = 1; line <= lines.line_count(); ++line) {
    const std::string_view text = lines.Line(line);
    const size_t hash = text.find('#');
    const bool alone = StandsAlone(text);
    at_top = at_top && (alone || Trim(text).empty());
    if (alone) comment_lines_.push_back(line);
    if (hash != std::string_view::npos) Read(text.substr(hash), line, alone, at_top);
  }
}

void Suppressions::Read(std::string_view comment, int line, bool alone, bool may_be_file) {
  const size_t at = comment.find(kMark);
  if (at == std::string_view::npos) return;
  std::string_view rest = Trim(comment.substr(at + kMark.size()));
  if (!rest.starts_with("ignore")) return;
  rest.remove_prefix(6);
  Entry entry{"", line, rest.starts_with("-file"), alone, false};
  if (entry.whole_file) {
    rest.remove_prefix(5);
    if (!may_be_file) return;
  }
  if (!rest.starts_with('[')) {
    // "ignored" is a word of a sentence.
    if (rest.empty() || rest[0] == ' ' || rest[0] == '#') entries_.push_back(entry);
    return;
  }
  rest.remove_prefix(1);
  rest = rest.substr(0, rest.find(']'));
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    entry.rule = std::string(Trim(rest.substr(0, comma)));
    if (!entry.rule.empty()) entries_.push_back(entry);
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
}

std::pair<int, int> Suppressions::StatementLines(NodeId node) const {
  const Syntax& syntax = *syntax_;
  // Up to the statement, or to the clause of one that has a head of its own (`elif x:`).
  while (node > 0) {
    const Kind kind = syntax[node].kind;
    const Kind parent = syntax.kind(syntax[node].parent);
    if (parent == Kind::kBlock || parent == Kind::kModule || kind == Kind::kElif ||
        kind == Kind::kElse || kind == Kind::kExcept || kind == Kind::kFinally ||
        kind == Kind::kCaseClause) {
      break;
    }
    node = syntax[node].parent;
  }
  const int first = lines_.LineAt(syntax[node].begin);
  if (node == 0) return {first, first};
  // A head ends before its block begins; that of a decorated definition is one level down.
  NodeId inner = node;
  if (syntax.Is(node, Kind::kDecorated)) {
    for (const NodeId child : syntax.Children(node)) inner = child;
  }
  uint32_t end = syntax[inner].begin;
  for (const NodeId child : syntax.Children(inner)) {
    if (syntax.Is(child, Kind::kBlock)) return {first, lines_.LineAt(end)};
    end = syntax[child].end;
  }
  return {first, lines_.LineAt(syntax[node].end)};
}

bool Suppressions::Silences(NodeId node, std::string_view rule) {
  if (entries_.empty()) return false;
  const auto [first, last] = StatementLines(node);
  return SilencesLines(first, last, rule);
}

bool Suppressions::SilencesLines(int first, int last, std::string_view rule) {
  int above = first;
  while (std::binary_search(comment_lines_.begin(), comment_lines_.end(), above - 1)) --above;
  bool silenced = false;
  for (Entry& entry : entries_) {
    const bool covers = entry.whole_file || (entry.line >= above && entry.line <= last);
    if (!covers || (!entry.rule.empty() && entry.rule != rule)) continue;
    entry.used = true;
    silenced = true;
  }
  return silenced;
}

}  // namespace mpnanny::check
