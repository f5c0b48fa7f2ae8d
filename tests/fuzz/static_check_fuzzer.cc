// libFuzzer on the static check: bytes of source files → Check() with every rule on → the reports.
//
// The first byte of an input says what the rest is (Sources below; make_python_seeds.py writes such
// inputs). One RuleSet serves all inputs; nothing is skipped for not mentioning torch. What must
// hold: a check of anything succeeds; every finding and every edit names a range of the text, and
// the edits of a finding do not overlap and leave text that can be checked again; the answer and
// the SARIF file made of it are valid JSON, and its pages tell every finding once; the same sources
// on two threads give the same report. The last three are looked at for a part of the inputs, which
// their bytes decide, so that one input alone shows again what it showed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/data_files.h"
#include "base/json.h"
#include "base/text.h"
#include "engines/check/engine.h"
#include "engines/check/inputs/decode.h"
#include "engines/check/inputs/notebook.h"
#include "engines/check/report/report_text.h"
#include "engines/check/report/sarif.h"
#include "engines/check/rule_set.h"
#include "tools/tool.h"

namespace mpnanny::check {
namespace {

void Require(bool holds, const char* what, const std::string& detail = "") {
  if (holds) return;
  std::fprintf(stderr, "FUZZ: %s: %s\n", what, EscapeControl(detail, 4000, true).c_str());
  std::abort();
}

const RuleSet& Rules() {
  static const DataFiles kData = *DataFiles::Create();
  static const std::shared_ptr<const RuleSet> kRules = *RuleSet::Load(kData);
  return *kRules;
}

Options EveryRule(unsigned threads) {
  Options options;
  options.rules = Rules().Ids();
  options.threads = threads;
  options.skip_without_torch = false;
  return options;
}

// The pieces between lines that are `separator`.
std::vector<std::string> Split(std::string_view text, std::string_view separator) {
  std::vector<std::string> pieces;
  for (size_t at = text.find(separator); at != std::string_view::npos; at = text.find(separator)) {
    pieces.emplace_back(text.substr(0, at + 1));
    text.remove_prefix(at + separator.size());
  }
  pieces.emplace_back(text);
  return pieces;
}

std::string NotebookOf(const std::vector<std::string>& cells) {
  Json list = Json::array();
  for (const std::string& cell : cells) {
    const bool text = cell.starts_with("#:");
    list.push_back({{"cell_type", text ? "markdown" : "code"}, {"source", cell}});
  }
  return DumpJson({{"cells", std::move(list)}, {"nbformat", 4}});
}

std::vector<Source> Sources(char kind, std::string_view rest) {
  switch (kind) {
    case 'm': {  // modules of a package, which import one another as .a, .b …
      std::vector<Source> files;
      for (std::string& piece : Split(rest, "\n#====\n")) {
        files.push_back({std::string("pkg/") + static_cast<char>('a' + files.size()) + ".py",
                         std::move(piece)});
        if (files.size() == 4) break;
      }
      return files;
    }
    case 'n':  // a notebook as it is on disk
      return {{"a.ipynb", std::string(rest)}};
    case 'c':  // the cells of one
      return {{"a.ipynb", NotebookOf(Split(rest, "\n#%%\n"))}};
    case 'j':
      return {{"a.json", std::string(rest)}};
    case 'y':
      return {{"a.yaml", std::string(rest)}};
    case 's':
      return {{"a.sh", std::string(rest)}};
    default:
      return {{"a.py", std::string(rest)}};
  }
}

// A decoded text as the findings count it.
class SeenText {
 public:
  explicit SeenText(std::string_view text) {
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      lines_.emplace_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }

  // Finding or Edit.
  template <typename Range>
  void RequireInside(const Range& range, const std::string& rule) const {
    RequirePosition(range.line, range.column, rule);
    RequirePosition(range.end_line, range.end_column, rule);
    Require(std::pair(range.line, range.column) <= std::pair(range.end_line, range.end_column),
            "a range that ends before it begins", rule);
  }

  // With edits that are sorted and do not overlap.
  std::string With(const std::vector<Edit>& edits) const {
    std::string text;
    int line = 1;
    int column = 1;
    for (const Edit& edit : edits) {
      Append(line, column, edit.line, edit.column, &text);
      text += edit.text;
      line = edit.end_line;
      column = edit.end_column;
    }
    const int last = static_cast<int>(lines_.size());
    Append(line, column, last, static_cast<int>(CountCodePoints(lines_.back())) + 1, &text);
    return text;
  }

 private:
  void RequirePosition(int line, int column, const std::string& rule) const {
    const auto number = static_cast<size_t>(line);
    Require(line >= 1 && number <= lines_.size(), "a line that is not there",
            rule + " " + std::to_string(line));
    Require(column >= 1 && static_cast<size_t>(column) <= CountCodePoints(lines_[number - 1]) + 1,
            "a column that is not there", rule + " " + std::to_string(column));
  }

  void Append(int line, int column, int end_line, int end_column, std::string* out) const {
    for (; line < end_line; ++line, column = 1) {
      const std::string& whole = lines_[static_cast<size_t>(line) - 1];
      *out += whole.substr(Offset(whole, column)) + "\n";
    }
    const std::string& whole = lines_[static_cast<size_t>(line) - 1];
    const size_t begin = Offset(whole, column);
    *out += whole.substr(begin, Offset(whole, end_column) - begin);
  }

  static size_t Offset(const std::string& line, int column) {
    size_t at = 0;
    for (; column > 1; --column) {
      for (++at; at < line.size() && (static_cast<unsigned char>(line[at]) & 0xC0) == 0x80;) ++at;
    }
    return at;
  }

  std::vector<std::string> lines_;
};

// What each path of a finding means; the cells of a notebook have paths of their own.
std::map<std::string, SeenText> SeenTexts(const std::vector<Source>& sources) {
  std::map<std::string, SeenText> texts;
  for (const Source& source : sources) {
    if (!source.path.ends_with(".ipynb")) {
      if (const auto decoded = DecodeSource(source.text))
        texts.emplace(source.path, SeenText(decoded->text));
      continue;
    }
    const auto notebook = ReadNotebook(source.text);
    const auto decoded = notebook ? DecodeSource(notebook->text) : std::nullopt;
    if (!decoded) continue;
    const std::string& joined = decoded->text;
    size_t begin = 0;
    int line = 1;
    const auto go_to = [&](int wanted) {
      size_t at = begin;
      for (; line < wanted; ++line) at = joined.find('\n', at) + 1;
      return at;
    };
    for (size_t i = 0; i < notebook->cells.size(); ++i) {
      const bool last = i + 1 == notebook->cells.size();
      const size_t end = last ? joined.size() : go_to(notebook->cells[i + 1].first_line);
      texts.emplace(source.path + ":cell " + std::to_string(notebook->cells[i].number),
                    SeenText(std::string_view(joined).substr(begin, end - begin)));
      begin = end;
    }
  }
  return texts;
}

Report MustCheck(const std::vector<Source>& sources, unsigned threads) {
  auto report = Check(sources, EveryRule(threads), Rules(), {});
  Require(report.has_value(), "a check that failed", report ? "" : report.error().Text());
  return *std::move(report);
}

auto Key(const Finding& finding) {
  return std::tie(finding.severity, finding.path, finding.line, finding.column, finding.rule,
                  finding.end_line, finding.end_column, finding.message, finding.confidence,
                  finding.excerpt);
}

void RequireSame(const Report& one, const Report& other) {
  Require(one.notes == other.notes && one.suppressed == other.suppressed &&
              one.files_scanned == other.files_scanned && one.files_skipped == other.files_skipped,
          "another report of the same sources");
  Require(one.findings.size() == other.findings.size(), "more or fewer findings the second time");
  for (size_t i = 0; i < one.findings.size(); ++i) {
    Require(Key(one.findings[i]) == Key(other.findings[i]) &&
                one.findings[i].edits.size() == other.findings[i].edits.size(),
            "another finding the second time", one.findings[i].rule + " " + other.findings[i].rule);
  }
}

// The edits of a finding, applied to its text; returns the new text.
std::string Repaired(const Finding& finding, const SeenText& text) {
  std::vector<Edit> edits = finding.edits;
  for (const Edit& edit : edits) {
    text.RequireInside(edit, finding.rule);
    Require(IsUtf8(edit.text), "an edit that is not UTF-8", finding.rule);
  }
  std::stable_sort(edits.begin(), edits.end(), [](const Edit& a, const Edit& b) {
    return std::pair(a.line, a.column) < std::pair(b.line, b.column);
  });
  for (size_t i = 1; i < edits.size(); ++i) {
    Require(std::pair(edits[i - 1].end_line, edits[i - 1].end_column) <=
                std::pair(edits[i].line, edits[i].column),
            "edits that overlap", finding.rule);
  }
  std::string repaired = text.With(edits);
  Require(IsUtf8(repaired), "a repaired text that is not UTF-8", finding.rule);
  return repaired;
}

void ReadAnswers(const Report& report) {
  size_t told = 0;
  for (bool more = true; more;) {
    const ToolOutput page = ShowReport(report, told, told % 2 == 0, kAnswerBytes);
    const auto json = ParseJson(DumpJson(page.structured));
    Require(json && *json == page.structured, "an answer that is no JSON");
    Require(IsUtf8(page.text), "an answer that is not UTF-8", page.text);
    Require(ParseJson(ToSarif(page.structured, &Rules())).has_value(), "SARIF that is no JSON");
    const size_t size = page.structured["findings"].size();
    more = page.structured.contains("next_cursor");
    Require(!more || size > 0, "a page without findings before the last one");
    told += size;
  }
  Require(told == report.findings.size(), "pages that leave findings out");
  Require(IsUtf8(ShowUnfinished(report, kAnswerBytes).text), "a first answer that is not UTF-8");
}

void Run(std::string_view input) {
  if (input.empty()) return;
  const std::vector<Source> sources = Sources(input[0], input.substr(1));
  const Report report = MustCheck(sources, 1);
  Require(report.files_scanned + report.files_skipped == static_cast<int>(sources.size()),
          "a source that was neither checked nor skipped");
  uint32_t sum = 2166136261u;  // FNV-1a
  for (const char c : input) sum = (sum ^ static_cast<unsigned char>(c)) * 16777619u;
  sum >>= 8;
  if (sum % 16 == 0) RequireSame(report, MustCheck(sources, 2));
  if (report.findings.empty() && report.notes.empty()) return;
  if (sum % 16 == 1) ReadAnswers(report);
  if (report.findings.empty()) return;
  const std::map<std::string, SeenText> texts = SeenTexts(sources);
  for (const Finding& finding : report.findings) {
    const auto text = texts.find(finding.path);
    Require(text != texts.end(), "a finding in a file that is not there", finding.path);
    text->second.RequireInside(finding, finding.rule);
    if (finding.edits.empty()) continue;
    std::string repaired = Repaired(finding, text->second);
    if (sum % 4 == 2) MustCheck({{"a.py", std::move(repaired)}}, 1);
  }
}

}  // namespace
}  // namespace mpnanny::check

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  mpnanny::check::Rules();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mpnanny::check::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
