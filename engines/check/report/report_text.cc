#include "engines/check/report/report_text.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "engines/check/report/proof_report.h"

namespace mpnanny::check {
namespace {

constexpr size_t kMaxNotes = 8;

// A source line as it can be shown, character for character: columns stay.
std::string Visible(const std::string& line) {
  std::string shown;
  for (size_t i = 0; i < line.size();) {
    size_t end = i + 1;
    while (end < line.size() && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) ++end;
    const std::string character = line.substr(i, end - i);
    shown += EscapeControl(character) == character ? character : " ";
    i = end;
  }
  return shown;
}

// `whole`: for a program that shows the finding, not for a model to read.
Json ToJson(const Finding& finding, bool explain, bool whole) {
  Json edits = Json::array();
  for (const Edit& edit : finding.edits) {
    edits.push_back({{"line", edit.line},
                     {"column", edit.column},
                     {"end_line", edit.end_line},
                     {"end_column", edit.end_column},
                     {"text", edit.text}});
  }
  Json json = {{"rule", finding.rule},
               {"severity", SeverityName(finding.severity)},
               {"confidence", finding.confidence},
               {"path", EscapeControl(finding.path, 500)},
               {"line", finding.line},
               {"column", finding.column},
               {"end_line", finding.end_line},
               {"end_column", finding.end_column},
               {"message", EscapeControl(finding.message, 600)},
               {"why", explain ? finding.why : ""},
               {"fix", finding.fix},
               {"edits", std::move(edits)},
               {"cases", finding.cases}};
  if (finding.proof) json["proof"] = ProofJson(*finding.proof);
  if (whole) {
    json["source"] = {{"text", Visible(finding.excerpt)}, {"column", finding.excerpt_column}};
  }
  return json;
}

std::string ToText(const Finding& finding, bool explain) {
  std::string text =
      EscapeControl(finding.path, 500) + ":" + std::to_string(finding.line) + ":" +
      std::to_string(finding.column) + ": " + SeverityName(finding.severity) + " [" + finding.rule +
      "] " + EscapeControl(finding.message, 600) +
      (finding.confidence == "high" ? "" : " (confidence: " + finding.confidence + ")") + "\n";
  text += "    " + EscapeControl(finding.excerpt, 120) + "\n";
  if (explain) text += "    why: " + finding.why + "\n";
  text += "    fix: " + finding.fix +
          (finding.edits.empty() ? "" : " (an edit is in the structured answer)") + "\n";
  if (!finding.cases.empty()) text += "    cases: " + Join(finding.cases, ", ") + "\n";
  if (finding.proof) text += "    " + ProofText(ProofJson(*finding.proof)) + "\n";
  return text;
}

std::string Counts(const Report& report) {
  int counts[3] = {};
  for (const Finding& finding : report.findings) ++counts[static_cast<int>(finding.severity)];
  const auto count = [](int number, const char* noun) {
    return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
  };
  std::string text = count(counts[2], "error") + ", " + count(counts[1], "warning") +
                     (counts[0] > 0 ? ", " + count(counts[0], "info") : "") + " in " +
                     count(report.files_scanned, "file");
  if (report.files_skipped > 0) {
    text += "; " + std::to_string(report.files_skipped) +
            " skipped (they never mention torch, or see the notes)";
  }
  if (report.suppressed > 0)
    text += "; " + std::to_string(report.suppressed) + " suppressed by comments";
  return text + ".\n";
}

ToolOutput Show(const Report& report, size_t first, bool full, size_t answer_bytes, size_t most,
                bool finished) {
  const bool whole = answer_bytes >= kAnswerBytes * 4;
  ToolOutput output;
  Json notes = Json::array();
  std::string tail;
  for (size_t i = 0; i < report.notes.size(); ++i) {
    if (i >= kMaxNotes && !whole) {
      notes.push_back(std::to_string(report.notes.size() - i) + " more notes.");
      tail += "note: " + notes.back().get<std::string>() + "\n";
      break;
    }
    const std::string note = EscapeControl(report.notes[i], 300);
    notes.push_back(note);
    tail += "note: " + note + "\n";
  }
  Json findings = Json::array();
  std::string text = Counts(report);
  // Room for what follows the findings: notes, counts, cursor, the hint.
  const size_t reserve = std::min(answer_bytes / 2, tail.size() + DumpJson(notes).size() + 400);
  const size_t room = answer_bytes - reserve;
  size_t json_size = 0;
  std::set<std::string> explained;
  size_t next = first;
  for (; next < report.findings.size() && next - first < most; ++next) {
    const Finding& finding = report.findings[next];
    const bool explain = full || !explained.contains(finding.rule);
    Json json = ToJson(finding, explain, whole);
    const std::string shown = ToText(finding, explain);
    const size_t size = DumpJson(json).size() + 1;
    const bool fits = json_size + size <= room && text.size() + shown.size() <= room;
    if (!fits && next > first) break;
    if (!fits) {  // a finding too large for a page of its own: without what can be looked up
      json["why"] = "";
      json["edits"] = Json::array();
    }
    explained.insert(finding.rule);
    json_size += size;
    text += shown;
    findings.push_back(std::move(json));
  }
  output.structured = {
      {"findings", std::move(findings)},
      {"total", report.findings.size()},
      {"to_judge", report.candidates.size()},
      {"counts",
       {{"error", report.counts[2]}, {"warning", report.counts[1]}, {"info", report.counts[0]}}},
      {"files_scanned", report.files_scanned},
      {"files_skipped", report.files_skipped},
      {"suppressed", report.suppressed},
      {"notes", std::move(notes)}};
  text += ProofCounts(output.structured["findings"]) + tail;
  if (!finished) {
    // A cursor belongs to the whole list, and what was not found may still be.
    if (next < report.findings.size()) {
      text += std::to_string(report.findings.size() - next) +
              " findings more: the answer at the end has them.\n";
    }
    output.text = std::move(text);
    return output;
  }
  if (next < report.findings.size()) {
    const std::string cursor = "f" + std::to_string(next);
    output.structured["next_cursor"] = cursor;
    text += std::to_string(report.findings.size() - next) +
            " findings more: the same call with cursor \"" + cursor + "\".\n";
  }
  if (!report.candidates.empty()) {
    text += ToJudgeText(output.structured["to_judge"]) +
            ": the same call with detail \"candidates\".\n";
  }
  if (!report.findings.empty()) {
    text += "Next: read mpnanny://rules/" +
            report.findings[first < report.findings.size() ? first : 0].rule +
            " for the rule, or search_knowledge with a case id for documented failures.\n";
  } else if (report.files_scanned > 0) {
    text += report.notes.empty() ? "Nothing found. "
                                 : "Nothing found in what could be read: see the notes. ";
    text +=
        "What only shows at run time is seen by the monitor: diagnose_run "
        "reads a run.\n";
  } else {
    text +=
        "No file was checked: none of them mentions torch. Name the training script or its "
        "folder.\n";
  }
  output.text = std::move(text);
  return output;
}

}  // namespace

std::string ToJudgeText(const Json& count) {
  return DumpJson(count) + (count == 1 ? " place" : " places") +
         " to judge, which the text does not decide";
}

ToolOutput ShowReport(const Report& report, size_t first, bool full, size_t answer_bytes,
                      size_t most) {
  return Show(report, first, full, answer_bytes, most, /*finished=*/true);
}

Json FirstNotes(const Report& report) {
  constexpr size_t kMost = 3;
  Json notes = Json::array();
  for (size_t at = 0; at < std::min(kMost, report.notes.size()); ++at)
    notes.push_back(EscapeControl(report.notes[at], 300));
  return notes;
}

ToolOutput ShowUnfinished(Report report, size_t answer_bytes) {
  SortFindings(report.findings);
  report.notes.insert(report.notes.begin(), "Not done yet: more files are being checked.");
  return Show(report, 0, /*full=*/false, answer_bytes, SIZE_MAX, /*finished=*/false);
}

}  // namespace mpnanny::check
