#include "engines/check/report/terminal_text.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "engines/check/report/proof_report.h"
#include "engines/check/report/report_text.h"

namespace mpnanny::check {
namespace {

// Ranges of code points that take two columns of a terminal: East Asian wide, and emoji.
constexpr std::array<std::pair<uint32_t, uint32_t>, 9> kWide = {{{0x1100, 0x115F},
                                                                 {0x2E80, 0xA4CF},
                                                                 {0xAC00, 0xD7A3},
                                                                 {0xF900, 0xFAFF},
                                                                 {0xFE30, 0xFE6F},
                                                                 {0xFF00, 0xFF60},
                                                                 {0xFFE0, 0xFFE6},
                                                                 {0x1F300, 0x1FAFF},
                                                                 {0x20000, 0x3FFFD}}};

size_t Width(uint32_t point) {
  return std::any_of(
             kWide.begin(), kWide.end(),
             [&](const auto& range) { return range.first <= point && point <= range.second; })
             ? 2
             : 1;
}

// Terminal columns of the code points [first, last) of UTF-8 text, counted from 0.
size_t ColumnsOf(std::string_view text, size_t first, size_t last) {
  size_t columns = 0;
  size_t point = 0;
  for (size_t i = 0; i < text.size() && point < last; ++point) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    uint32_t value = length == 1 ? lead : lead & (0xFFu >> (length + 1));
    for (size_t k = 1; k < length && i + k < text.size(); ++k)
      value = (value << 6) | (static_cast<unsigned char>(text[i + k]) & 0x3Fu);
    if (point >= first) columns += Width(value);
    i += length;
  }
  return columns;
}

class Writer {
 public:
  explicit Writer(bool colour) : colour_(colour) {}

  std::string Paint(std::string_view code, const std::string& text) const {
    return colour_ && !text.empty() ? "\x1b[" + std::string(code) + "m" + text + "\x1b[0m" : text;
  }

  std::string Finding(const Json& finding) const {
    const std::string severity = finding["severity"];
    const char* const colour = severity == "error" ? "1;31" : severity == "warning" ? "33" : "36";
    const int line = finding["line"];
    const std::string number = std::to_string(line);
    const std::string gutter(number.size(), ' ');
    const std::string bar = Paint("2", gutter + " |");
    std::string text = Paint("1", finding["path"].get<std::string>() + ":" + number + ":" +
                                      std::to_string(finding["column"].get<int>())) +
                       ": " + Paint(colour, severity) + " " +
                       Paint("1", "[" + finding["rule"].get<std::string>() + "]") + " " +
                       finding["message"].get<std::string>();
    if (finding["confidence"] != "high")
      text += " (confidence: " + finding["confidence"].get<std::string>() + ")";
    text += "\n";
    if (const auto source = finding.find("source"); source != finding.end()) {
      const std::string excerpt = (*source)["text"];
      const auto column = static_cast<size_t>((*source)["column"].get<int>()) - 1;
      const bool one_line = finding["end_line"] == finding["line"];
      const size_t length = one_line
                                ? static_cast<size_t>(std::max(1, finding["end_column"].get<int>() -
                                                                      finding["column"].get<int>()))
                                : std::string::npos - column;
      const size_t width = std::max<size_t>(1, ColumnsOf(excerpt, column, column + length));
      text += bar + "\n" + Paint("2", number + " |") + " " + excerpt + "\n" + bar + " " +
              std::string(ColumnsOf(excerpt, 0, column), ' ') +
              Paint(colour, std::string(width, '^')) + "\n";
    }
    for (const char* key : {"why", "fix"}) {
      const std::string value = finding[key];
      if (!value.empty())
        text += gutter + " " + Paint("2", std::string("= ") + key + ":") + " " + value + "\n";
    }
    if (!finding["edits"].empty())
      text += gutter + " " + Paint("2", "= edit:") + " --format json and sarif hold it\n";
    if (!finding["cases"].empty()) {
      text += gutter + " " + Paint("2", "= cases:");
      for (const Json& one : finding["cases"]) text += " " + one.get<std::string>();
      text += "\n";
    }
    if (finding.contains("proof"))
      text += gutter + " " + Paint("2", "=") + " " + ProofText(finding["proof"]) + "\n";
    return text + "\n";
  }

 private:
  const bool colour_;
};

std::string Count(const Json& number, const char* noun) {
  return number.dump() + " " + noun + (number == 1 ? "" : "s");
}

}  // namespace

std::string ToTerminal(const Json& structured, bool colour) {
  const Writer writer(colour);
  std::string text;
  for (const Json& finding : structured["findings"]) text += writer.Finding(finding);
  for (const Json& note : structured["notes"])
    text += writer.Paint("2", "note:") + " " + note.get<std::string>() + "\n";
  const Json& counts = structured["counts"];
  text += ProofCounts(structured["findings"]);
  text += Count(counts["error"], "error") + ", " + Count(counts["warning"], "warning") +
          (counts["info"] != 0 ? ", " + Count(counts["info"], "info") : "") + " in " +
          Count(structured["files_scanned"], "file");
  if (structured["files_skipped"] != 0) {
    text += "; " + structured["files_skipped"].dump() +
            " skipped (they never mention torch, or see the notes)";
  }
  if (structured["suppressed"] != 0)
    text += "; " + structured["suppressed"].dump() + " suppressed by comments";
  text += ".\n";
  if (structured.contains("to_judge") && structured["to_judge"] != 0)
    text += ToJudgeText(structured["to_judge"]) + ": --detail candidates.\n";
  if (!structured["findings"].empty()) {
    text += "`mpnanny rules " + structured["findings"][0]["rule"].get<std::string>() +
            "` explains a rule; `# mpnanny: ignore[rule]` silences it on a line.\n";
  } else if (structured["files_scanned"] == 0) {
    text +=
        "No file was checked: none of them mentions torch. Name the training script or its "
        "folder.\n";
  } else if (counts["error"] == 0 && counts["warning"] == 0 && counts["info"] == 0) {
    text += structured.contains("notes") && !structured["notes"].empty()
                ? "Nothing found in what could be read: see the notes. "
                : "Nothing found. ";
    text +=
        "What only shows at run time is seen by the monitor: `mpnanny diagnose` "
        "reads a run.\n";
  }
  return text;
}

}  // namespace mpnanny::check
