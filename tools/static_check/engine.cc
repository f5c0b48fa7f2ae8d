#include "tools/static_check/engine.h"

#include <algorithm>
#include <array>
#include <memory>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "base/trace.h"
#include "tools/static_check/facts.h"
#include "tools/static_check/notebook.h"
#include "tools/static_check/query_set.h"
#include "tools/static_check/rule_set.h"
#include "tools/static_check/text_index.h"

namespace mpnanny::static_check {
namespace {

// Syntax trees of everything that is checked together are held in memory at once, about 30 bytes a
// byte of source.
constexpr size_t kMaxTotalBytes = 32u << 20;
// Every 4,000 findings more would tell nobody anything.
constexpr size_t kMaxFindings = 20000;

// A file that mentions none of these cannot use mixed precision of torch. The last ones are for
// snippets without imports.
constexpr std::array<std::string_view, 7> kFrameworks = {
    "torch", "lightning", "accelerate", "fastai", "deepspeed", ".backward(", "autocast"};

bool MentionsTorch(std::string_view text) {
  return std::any_of(kFrameworks.begin(), kFrameworks.end(), [&](std::string_view word) {
    return text.find(word) != std::string_view::npos;
  });
}

// Bytes that are no UTF-8 become '?', one for one, so that offsets stay.
void MakeUtf8(std::string& text) {
  size_t begin = 0;
  while (begin < text.size()) {
    // Line by line: almost all lines of such a file are plain ASCII.
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    if (!IsUtf8(std::string_view(text).substr(begin, end - begin))) {
      for (size_t i = begin; i < end; ++i) {
        if ((static_cast<unsigned char>(text[i]) & 0x80) != 0) text[i] = '?';
      }
    }
    begin = end + 1;
  }
}

struct Unit {
  const Source* source = nullptr;
  std::vector<NotebookCell> cells;  // empty: no notebook
  std::unique_ptr<FileFacts> facts;
};

std::string PathAt(const Unit& unit, int& line) {
  if (unit.cells.empty()) return unit.source->path;
  auto after =
      std::upper_bound(unit.cells.begin(), unit.cells.end(), line,
                       [](int value, const NotebookCell& cell) { return value < cell.first_line; });
  const NotebookCell& cell = *(after == unit.cells.begin() ? after : after - 1);
  line -= cell.first_line - 1;
  return unit.source->path + ":cell " + std::to_string(cell.number);
}

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

// Reads, parses and builds the facts of one file; null (perhaps with a note) if it is not checked.
Result<bool> BuildUnit(const Source& source, const OpTable& ops, const CancelToken& cancel,
                       Unit* unit, Report* report) {
  const auto note = [&](const std::string& what) {
    report->notes.push_back(source.path + ": " + what);
  };
  unit->source = &source;
  if (!MentionsTorch(source.text)) return false;
  std::string text;
  if (source.path.ends_with(".ipynb")) {
    auto notebook = ReadNotebook(source.text);
    if (!notebook) {
      note("not checked, " + notebook.error().message + ".");
      return false;
    }
    text = std::move(notebook->text);
    unit->cells = std::move(notebook->cells);
    if (unit->cells.empty()) return false;
  } else {
    text = source.text;
  }
  if (text.size() > kMaxSourceBytes) {
    note("not checked, it is larger than " + std::to_string(kMaxSourceBytes >> 20) + " MB.");
    return false;
  }
  if (text.find('\0') != std::string::npos) {
    note("not checked, it is a binary file or UTF-16 (it holds zero bytes).");
    return false;
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  if (!IsUtf8(text)) {
    MakeUtf8(text);
    note("it is not UTF-8; characters that could not be read count as '?'.");
  }
  auto syntax = Syntax::Parse(std::move(text), cancel);
  if (!syntax) {
    if (cancel.stop_requested()) return syntax.error();
    note("not checked, " + syntax.error().message + ".");
    return false;
  }
  if (syntax->depth() > kMaxSyntaxDepth) {
    note("not checked, it is nested more than " + std::to_string(kMaxSyntaxDepth) +
         " levels deep.");
    return false;
  }
  if (syntax->has_error()) {
    int line = syntax->error_line();
    const std::string path = PathAt(*unit, line);
    report->notes.push_back(path + ":" + std::to_string(line) +
                            ": syntax error; findings near it may be missing.");
  }
  unit->facts = std::make_unique<FileFacts>(std::move(*syntax), ops);
  return true;
}

struct Wanted {
  std::vector<bool> rules;  // by index of the rule set
};

Result<Wanted> Select(const Options& options, const RuleSet& rules) {
  const std::vector<std::string> ids = rules.Ids();
  Wanted wanted{std::vector<bool>(ids.size(), options.rules.empty())};
  for (const auto* list : {&options.rules, &options.ignore}) {
    for (const std::string& id : *list) {
      const auto it = std::find(ids.begin(), ids.end(), id);
      if (it == ids.end()) {
        const std::string hint = DidYouMean(id, ids);
        return InvalidInput("There is no rule '" + EscapeControl(id, 80) + "'.",
                            hint.empty() ? "`mpnanny rules` lists them." : hint);
      }
      wanted.rules[static_cast<size_t>(it - ids.begin())] = list == &options.rules;
    }
  }
  return wanted;
}

void Finish(const Unit& unit, const RawFinding& raw, const RuleSet& rules, const TextIndex& index,
            Report* report) {
  const RulePage& page = rules.pages()[raw.rule];
  const Node& node = unit.facts->syntax[raw.node];
  const Position begin = index.At(node.begin);
  const Position end = index.At(node.end);
  const NodeId statement = unit.facts->syntax.StatementOf(raw.node);
  const Node& whole = unit.facts->syntax[statement == kNoNode ? raw.node : statement];
  const int last_line = index.At(std::min(whole.end, node.end)).line;
  if (IsIgnored(index.Line(begin.line), page.id) || IsIgnored(index.Line(last_line), page.id)) {
    ++report->suppressed;
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
  report->findings.push_back(std::move(finding));
}

}  // namespace

const char* SeverityName(Severity severity) {
  return severity == Severity::kError     ? "error"
         : severity == Severity::kWarning ? "warning"
                                          : "info";
}

Result<Severity> ParseSeverity(std::string_view name) {
  for (const Severity severity : {Severity::kInfo, Severity::kWarning, Severity::kError}) {
    if (name == SeverityName(severity)) return severity;
  }
  return InvalidInput("'" + EscapeControl(name, 40) + "' is no severity.",
                      "Use error, warning or info.");
}

Result<Report> Check(const std::vector<Source>& sources, const Options& options,
                     const RuleSet& rules, const CancelToken& cancel) {
  const TraceSpan span("static_check");
  const auto wanted = Select(options, rules);
  if (!wanted) return wanted.error();
  Report report;
  std::vector<Unit> units;
  ProjectFacts project;
  size_t total = 0;
  int beyond = 0;
  const auto tell = [&](size_t done) {
    if (options.on_step) options.on_step(done, 2 * sources.size(), report);
  };
  for (size_t i = 0; i < sources.size(); ++i) {
    const Source& source = sources[i];
    if (auto stopped = cancel.Check(); !stopped) return stopped.error();
    tell(i);
    Unit unit;
    if (total > kMaxTotalBytes) {
      ++beyond;
      ++report.files_skipped;
      continue;
    }
    auto built = BuildUnit(source, rules.ops(), cancel, &unit, &report);
    if (!built) return built.error();
    if (!*built) {
      ++report.files_skipped;
      continue;
    }
    total += source.text.size();
    unit.facts->AddTo(project);
    units.push_back(std::move(unit));
  }
  if (beyond > 0) {
    report.notes.push_back(std::to_string(beyond) + " files were not checked: one call takes " +
                           std::to_string(kMaxTotalBytes >> 20) +
                           " MB of code. Name fewer paths at once.");
  }
  for (size_t i = 0; i < units.size(); ++i) {
    Unit& unit = units[i];
    if (auto stopped = cancel.Check(); !stopped) return stopped.error();
    tell(2 * sources.size() - units.size() + i);
    unit.facts->Complete(project, cancel);
    std::vector<RawFinding> raw;
    rules.queries().Run(*unit.facts, &raw);
    Sink sink(&raw);
    for (size_t rule = 0; rule < rules.pages().size(); ++rule) {
      if (rules.check(rule) == nullptr || !wanted->rules[rule]) continue;
      sink.set_rule(rule);
      rules.check(rule)(*unit.facts, sink);
    }
    if (auto stopped = cancel.Check(); !stopped) return stopped.error();
    std::sort(raw.begin(), raw.end(), [](const RawFinding& a, const RawFinding& b) {
      return std::tie(a.rule, a.node) < std::tie(b.rule, b.node);
    });
    const TextIndex index(unit.facts->syntax.text());
    const RawFinding* previous = nullptr;
    for (const RawFinding& one : raw) {
      const bool again =
          previous != nullptr && previous->rule == one.rule && previous->node == one.node;
      previous = &one;
      if (again || !wanted->rules[one.rule] ||
          rules.pages()[one.rule].severity < options.min_severity)
        continue;
      if (report.findings.size() < kMaxFindings) Finish(unit, one, rules, index, &report);
    }
    ++report.files_scanned;
    unit.facts.reset();
  }
  if (report.findings.size() >= kMaxFindings) {
    report.notes.push_back("There are more findings than can be told; check fewer files at once.");
  }
  SortFindings(report.findings);
  return report;
}

void SortFindings(std::vector<Finding>& findings) {
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return std::tuple(-static_cast<int>(a.severity), std::string_view(a.path), a.line, a.column,
                      std::string_view(a.rule)) < std::tuple(-static_cast<int>(b.severity),
                                                             std::string_view(b.path), b.line,
                                                             b.column, std::string_view(b.rule));
  });
}

}  // namespace mpnanny::static_check
