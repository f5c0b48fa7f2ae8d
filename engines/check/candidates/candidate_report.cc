#include "engines/check/candidates/candidate_report.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "engines/check/report/proof_report.h"
#include "engines/check/report/report_text.h"

namespace mpnanny::check {
namespace {

std::string TryText(const Candidate& one) {
  return "auto_diff with finding \"" + EscapeControl(one.path, 300) + ":" +
         std::to_string(one.line) + "\" runs this in 16 bits and in FP64";
}

Json ToJson(const Candidate& one) {
  Json known = Json::array();
  for (const CandidateFact& fact : one.known) {
    Json item = {{"text", EscapeControl(fact.text, 160)}};
    if (fact.line > 0) item["line"] = fact.line;
    known.push_back(std::move(item));
  }
  Json unknown = Json::array();
  for (const std::string& text : one.unknown) unknown.push_back(EscapeControl(text, 200));
  Json json = {{"path", EscapeControl(one.path, 500)},
               {"line", one.line},
               {"end_line", one.end_line},
               {"rule", one.rule},
               {"hazard", EscapeControl(one.hazard, 400)},
               {"known", std::move(known)},
               {"unknown", std::move(unknown)},
               {"question", one.question},
               {"code", EscapeControl(one.code, 300)},
               {"try", TryText(one)}};
  if (one.proof) json["proof"] = ProofJson(*one.proof);
  return json;
}

std::string OneText(const Json& one) {
  std::string text = one["path"].get<std::string>() + ":" + DumpJson(one["line"]) + " [" +
                     one["rule"].get<std::string>() + "] " + one["hazard"].get<std::string>() +
                     "\n    " + one["code"].get<std::string>() + "\n";
  for (const Json& fact : one["known"]) {
    text += "    known: " + fact["text"].get<std::string>();
    if (fact.contains("line")) text += " (line " + DumpJson(fact["line"]) + ")";
    text += "\n";
  }
  for (const Json& open : one["unknown"]) text += "    open: " + open.get<std::string>() + "\n";
  text += "    " + one["question"].get<std::string>() + "\n";
  if (one.contains("proof")) text += "    " + ProofText(one["proof"]) + "\n";
  return text;
}

}  // namespace

ToolOutput ShowCandidates(const Report& report, size_t first, size_t answer_bytes, size_t most) {
  Json notes = FirstNotes(report);
  const size_t reserve = std::min(answer_bytes / 2, DumpJson(notes).size() + 700);
  size_t room = answer_bytes - reserve;
  Json shown = Json::array();
  size_t next = first;
  for (; next < report.candidates.size() && next - first < most; ++next) {
    Json one = ToJson(report.candidates[next]);
    const size_t bytes = std::max(DumpJson(one).size() + 1, OneText(one).size());
    if (bytes > room && next > first) break;
    room -= std::min(bytes, room);
    shown.push_back(std::move(one));
  }
  Json structured = {{"findings", Json::array()},
                     {"candidates", std::move(shown)},
                     {"total", report.candidates.size()},
                     {"files_scanned", report.files_scanned},
                     {"files_skipped", report.files_skipped},
                     {"notes", std::move(notes)}};
  std::string text = CandidatesText(structured);
  if (next < report.candidates.size()) {
    const std::string cursor = "f" + std::to_string(next);
    structured["next_cursor"] = cursor;
    text += std::to_string(report.candidates.size() - next) +
            " candidates more: the same call with cursor \"" + cursor + "\".\n";
  }
  if (!report.candidates.empty() && !report.candidates[first].proof) {
    text +=
        "None of these is a finding: read the code, answer the question, or try it: auto_diff with "
        "finding \"file:line\".\n";
  }
  return {std::move(structured), std::move(text)};
}

std::string CandidatesText(const Json& structured) {
  const auto count = [](const Json& number, const char* noun) {
    return DumpJson(number) + " " + noun + (number == 1 ? "" : "s");
  };
  std::string text = count(structured["total"], "place") + " to judge in " +
                     count(structured["files_scanned"], "file") + ".\n";
  for (const Json& one : structured["candidates"]) text += OneText(one);
  text += ProofCounts(structured["candidates"]);
  for (const Json& note : structured["notes"]) text += "note: " + note.get<std::string>() + "\n";
  return text;
}

}  // namespace mpnanny::check
