#include "engines/runs/import/text_log.h"

#include <algorithm>

#include "base/text.h"
#include "engines/runs/import/log_line.h"
#include "engines/runs/import/placement.h"
#include "engines/runs/import/table.h"
#include "engines/runs/import/traceback.h"
#include "engines/runs/show.h"

namespace mpnanny::imports {
namespace {

constexpr int64_t kSettingsLines = 20'000;  // in which a run prints how it is set

// Text has no zero bytes but in UTF-16, and few other control characters.
bool FitsText(const FileHead& head) {
  const std::string_view bytes(head.bytes);
  if (bytes.empty()) return false;
  if (bytes.starts_with("\xFF\xFE") || bytes.starts_with("\xFE\xFF")) return true;
  const auto strange = std::count_if(bytes.begin(), bytes.end(), [](char c) {
    const auto u = static_cast<unsigned char>(c);
    return u < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\x1b' && c != '\b';
  });
  return bytes.find('\0') == std::string_view::npos &&
         static_cast<size_t>(strange) * 50 <= bytes.size();
}

Result<void> ReadFiles(const std::vector<std::string>& files, Import& into) {
  auto source = ByteSource::OfFile(files.front());
  if (!source) return source.error();
  into.texts = files;
  return ReadTextLog(*std::move(source), into);
}

// "logs/metrics.db#1" of "mpnanny: watching …, recording into logs/metrics.db#1"; "" of others.
std::string RecordOf(std::string_view line) {
  constexpr std::string_view kInto = ", recording into ";
  constexpr size_t kMostBytes = 300;
  const size_t at = line.find(kInto);
  return at == std::string_view::npos ? ""
                                      : EscapeControl(line.substr(at + kInto.size()), kMostBytes);
}

}  // namespace

std::string PrecisionOf(const std::string& lower) {
  for (const char* key :
       {"dtype", "precision", "fp16: true", "fp16=true", "bf16: true", "bf16=true"}) {
    const size_t at = lower.find(key);
    if (at == std::string::npos) continue;
    const std::string around = lower.substr(at, 40);
    const auto has = [&](const char* word) { return around.find(word) != std::string::npos; };
    if (has("bf16") || has("bfloat16")) return "bf16";
    if (has("fp16") || has("float16")) return "fp16";
    if (has("fp32") || has("float32")) return "fp32";
  }
  return "";
}

Result<void> ReadTextLog(ByteSource source, Import& into) {
  LineReader lines(std::move(source));
  Placement placement(into.recorder);
  std::optional<Table> table;
  TracebackReader traceback;
  int64_t read = 0, used = 0, cut = 0, rows = 0;
  std::vector<std::string> reruns;
  bool of_monitor = false;
  std::string record;  // that the monitor's lines name; escaped
  while (!into.recorder.Full()) {
    const auto line = lines.Next();
    if (!line) break;
    if (line->empty()) continue;
    if (IsOfMonitor(*line)) {
      of_monitor = true;
      if (record.empty()) record = RecordOf(*line);
      continue;
    }
    if (++read % 1024 == 0) {
      MPN_TRY(into.recorder.cancel().Check());
    }
    if (lines.was_cut()) ++cut;
    if (!table) table = Table::OfHeader(*line);
    std::optional<Figures> cells;
    if (table) cells = table->Read(*line);
    const bool of_table = cells && cells->Any();
    rows += of_table ? 1 : 0;
    const Figures figures = of_table ? *cells : ReadFigures(*line);
    if (into.precision.empty() && read <= kSettingsLines) {
      into.precision = PrecisionOf(LowerCase(*line));
    }
    if (figures.Any() || figures.eval_loss) ++used;
    placement.Add(figures);
    traceback.Add(*line, figures.loss.has_value());
    if (std::string says = RerunSays(*line);
        !says.empty() && std::find(reruns.begin(), reruns.end(), says) == reruns.end()) {
      reruns.push_back(std::move(says));
    }
  }
  into.counts = "figures stand in " + std::to_string(used) + " of " + runs::Count(read, "line");
  placement.Finish();
  if (const auto error = traceback.Take()) into.recorder.PutException(*error);
  if (of_monitor) {
    into.notes.push_back(
        "Lines that begin with \"mpnanny:\" are the monitor's own and were not read as the "
        "training's" +
        (record.empty() ? "."
                        : "; what it recorded tells more: `mpnanny diagnose " + record + "`."));
  }
  into.numbered = placement.numbered();
  into.of_players = placement.of_players();
  placement.AddNotes(into.notes);
  // (A sentence may look like a header, and no row follows it.)
  if (std::string others = rows > 0 ? table->OthersText() : ""; !others.empty()) {
    into.notes.push_back(std::move(others));
  }
  into.notes.insert(into.notes.end(), reruns.begin(), reruns.end());
  if (cut > 0) {
    into.notes.push_back("Of " + runs::Count(cut, "very long line") +
                         " only the beginning was read.");
  }
  return {};
}

const Format kTextLog{"text log", FitsText, nullptr, ReadFiles};

}  // namespace mpnanny::imports
