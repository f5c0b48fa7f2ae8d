#include "engines/runs/import/text_log.h"

#include <algorithm>

#include "base/text.h"
#include "engines/runs/figure_sense.h"
#include "engines/runs/import/count_column.h"
#include "engines/runs/import/log_line.h"
#include "engines/runs/import/named_numbers.h"
#include "engines/runs/import/other_names.h"
#include "engines/runs/import/runs_of_file.h"
#include "engines/runs/import/spoken.h"
#include "engines/runs/import/survey.h"
#include "engines/runs/import/text_records.h"
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
  into.texts = files;
  return ReadTextLog([&] { return ByteSource::OfFile(files.front()); }, into);
}

// Whether a line has a number whose name says which way is the good one.
bool HasScore(std::string_view line, std::vector<NamedNumber>& numbers) {
  numbers.clear();
  ReadNamedNumbers(line, numbers);
  return std::any_of(numbers.begin(), numbers.end(), [](const NamedNumber& number) {
    return runs::IsScore(std::string(number.name));
  });
}

// The numbers of lines that tell of a step or of the training's figures: elsewhere they are
// settings and sentences.
class NamesOfLines {
 public:
  explicit NamesOfLines(FigureStore& store) : store_(store) {}

  void Add(std::string_view line, Figures& figures) {
    if (!figures.Any() && !figures.eval_loss && !IsCount(figures.step) && !figures.other_shape) {
      if (const auto count = CountOfOwn(line)) AddByRollouts(line, *count);
      AddClasses(line);
      // "Testing: mean_dice 0.71" between the records: of the step before it.
      if (!HasScore(line, numbers_)) return;
      figures.other_shape = true;
    }
    numbers_.clear();
    ReadNamedNumbers(line, numbers_);
    // "validation | loss 2.1": the line says whose figures they are, their names do not.
    const bool aside = figures.eval_loss && !figures.loss && figures.eval_name == "loss";
    for (const NamedNumber& number : numbers_) {
      const auto id = store_.IdOf(aside ? "eval/" + std::string(number.name) : number.name);
      if (id) figures.named.push_back({*id, number.value});
    }
  }

 private:
  // "vocab_size: 32000" among the settings: what a loss at ln(32000) is told by.
  void AddClasses(std::string_view line) {
    if (line.find("vocab_size") == std::string_view::npos &&
        line.find("num_classes") == std::string_view::npos &&
        line.find("num_labels") == std::string_view::npos) {
      return;
    }
    numbers_.clear();
    ReadNamedNumbers(line, numbers_);
    for (const NamedNumber& number : numbers_) {
      const bool classes = number.name.ends_with("vocab_size") ||
                           number.name.ends_with("num_classes") ||
                           number.name.ends_with("num_labels");
      if (!classes) continue;
      if (const auto id = store_.IdOf(number.name)) store_.Put(0, {*id, number.value});
    }
  }

  void AddByRollouts(std::string_view line, int64_t count) {
    numbers_.clear();
    ReadNamedNumbers(line, numbers_);
    for (const NamedNumber& number : numbers_) {
      // The count itself is no figure.
      if (number.name == "rollout" || number.name == "perf" || number.name == "eval") continue;
      if (const auto id = store_.IdOf(number.name)) store_.Put(count, {*id, number.value});
    }
  }

  FigureStore& store_;  // borrowed
  std::vector<NamedNumber> numbers_;
};

// OpenRLHF's line of a step.
bool TellsWholeStep(std::string_view line, const Figures& figures) {
  return IsCount(figures.step) && figures.Any() &&
         line.find("Global step ") != std::string_view::npos;
}

// "logs/metrics.db#1" of "mpnanny: watching …, recording into logs/metrics.db#1"; "" of others.
std::string RecordOf(std::string_view line) {
  constexpr std::string_view kInto = ", recording into ";
  constexpr size_t kMostBytes = 300;
  const size_t at = line.find(kInto);
  return at == std::string_view::npos ? ""
                                      : EscapeControl(line.substr(at + kInto.size()), kMostBytes);
}

struct Surveyed {
  Survey survey;
  bool has_whole_steps = false, has_losses = false;
};

// What counts a log's records, to be found out in the first reading.
struct Columns {
  CountColumn losses{CountColumn::Records::kLosses}, scores{CountColumn::Records::kScores};
};

// Reads all records once. `known` gives steps to them, `learns` is shown those that have none;
// either may be null.
Result<Surveyed> SurveyRecords(const OpenSource& open, const CountColumn* known, Columns* learns,
                               const CancelToken& cancel) {
  // Where lines tell a step whole, bars count micro-batches.
  Survey of_all, of_lines;
  bool has_whole_steps = false, has_losses = false;
  std::vector<NamedNumber> numbers;
  MPN_TRY_ASSIGN(auto source, open());
  TextRecords records(std::move(source), nullptr, known);
  for (int64_t read = 1; auto record = records.Next(); ++read) {
    if (read % 1024 == 0) MPN_TRY(cancel.Check());
    if (IsOfMonitor(record->line)) continue;
    const Figures& figures = record->figures;
    of_all.Add(figures);
    if (!figures.of_bar) of_lines.Add(figures);
    has_whole_steps = has_whole_steps || TellsWholeStep(record->line, figures);
    has_losses = has_losses || figures.loss || figures.eval_loss;
    if (!learns || figures.of_bar || record->of_table) continue;
    if (figures.loss && !figures.step) learns->losses.Add(record->line, figures.epoch);
    if (!has_losses && HasScore(record->line, numbers)) {
      learns->scores.Add(record->line, figures.epoch);
    }
  }
  Surveyed surveyed{has_whole_steps ? std::move(of_lines) : std::move(of_all), has_whole_steps,
                    has_losses};
  surveyed.survey.Settle();
  return surveyed;
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

Result<void> ReadTextLog(const OpenSource& open, Import& into) {
  Columns columns;
  MPN_TRY_ASSIGN(auto surveyed, SurveyRecords(open, nullptr, &columns, into.recorder.cancel()));
  CountColumn& column = surveyed.has_losses ? columns.losses : columns.scores;
  const bool counts = !surveyed.survey.numbered() && column.Settle();
  if (counts) {
    MPN_TRY_ASSIGN(surveyed, SurveyRecords(open, &column, nullptr, into.recorder.cancel()));
  }
  Survey& survey = surveyed.survey;
  const bool has_whole_steps = surveyed.has_whole_steps;

  MPN_TRY_ASSIGN(auto source, open());
  TextRecords records(std::move(source), &into.recorder.figures(), counts ? &column : nullptr);
  TracebackReader traceback;
  NamesOfLines names(into.recorder.figures());
  RunsOfFile runs_of_file(into);
  OtherNames others;
  int64_t read = 0, used = 0, cut = 0, of_tables = 0;
  std::vector<std::string> reruns;
  bool of_monitor = false, whole_steps = false, only_bars = true;
  std::string monitors_record;  // that the monitor's lines name; escaped
  while (!into.recorder.Full()) {
    auto record = records.Next();
    if (!record) break;
    const std::string_view line = record->line;
    if (IsOfMonitor(line)) {
      of_monitor = true;
      if (monitors_record.empty()) monitors_record = RecordOf(line);
      continue;
    }
    if (++read % 1024 == 0) MPN_TRY(into.recorder.cancel().Check());
    of_tables += record->lines - 1;
    if (record->was_cut) ++cut;
    Figures& figures = record->figures;
    if (!has_whole_steps || !figures.of_bar) survey.Judge(figures);
    if (!record->of_table) names.Add(line, figures);
    if (figures.turn == Turn::kRun) {
      runs_of_file.EndRun();
      if (const auto error = traceback.Take()) into.recorder.PutException(*error);
      traceback = {};
      runs_of_file.BeginRun(record->number);
    }
    // OpenRLHF's bars count the micro-batches of one update, which such a line then tells whole.
    if (!whole_steps && TellsWholeStep(line, figures)) {
      whole_steps = true;
      if (only_bars && into.recorder.last_step()) {
        runs_of_file.SetAside("micro-batches of the first update");
      }
    }
    if (whole_steps && figures.of_bar) continue;
    if (figures.Any() && !figures.of_bar) only_bars = false;
    if (into.precision.empty() && read <= kSettingsLines) {
      into.precision = PrecisionOf(LowerCase(line));
    }
    if (figures.loss || figures.bad_part || figures.grad_norm || figures.scale || figures.lr ||
        figures.eval_loss || figures.of_scores) {
      used += record->lines;
    } else if (used == 0) {
      others.Add(line);
    }
    runs_of_file.Add(record->number, figures);
    traceback.Add(line, record->number, figures.loss.has_value());
    // A line of figures says them by its numbers ("number of nan iterations: 0").
    const bool of_figures = figures.loss || figures.grad_norm || figures.lr || figures.eval_loss;
    if (const auto word = of_figures ? std::nullopt : SpokenFault(line)) {
      into.recorder.PutWord(*word, record->number, line);
    }
    if (std::string says = RerunSays(line);
        !says.empty() && std::find(reruns.begin(), reruns.end(), says) == reruns.end()) {
      reruns.push_back(std::move(says));
    }
  }
  const std::string lines = runs::Count(read + of_tables, "line") + " that are not empty";
  const char* const what = counts && column.of_scores()
                               ? "scores were read from "
                               : "a loss, a gradient norm, a rate or a loss scale was read from ";
  into.counts = used > 0 ? what + std::to_string(used) + " of " + lines : lines + " were read";
  if (used == 0) into.notes.push_back(others.Text());
  runs_of_file.EndRun();
  if (const auto error = traceback.Take()) into.recorder.PutException(*error);
  if (of_monitor) {
    into.notes.push_back(
        "Lines that begin with \"mpnanny:\" are the monitor's own and were not read as the "
        "training's" +
        (monitors_record.empty()
             ? "."
             : "; what it recorded tells more: `mpnanny diagnose " + monitors_record + "`."));
  }
  runs_of_file.Finish();
  survey.AddNotes(into.notes);
  into.notes.insert(into.notes.end(), reruns.begin(), reruns.end());
  if (cut > 0) {
    into.notes.push_back("Of " + runs::Count(cut, "very long line") +
                         " only the beginning was read.");
  }
  return {};
}

const Format kTextLog{"text log", FitsText, nullptr, ReadFiles};

}  // namespace mpnanny::imports
