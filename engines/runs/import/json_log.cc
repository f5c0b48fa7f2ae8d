// JSON logs: one object a line (MMEngine, fairseq, own scripts), HF's trainer_state.json, and an
// array of objects.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "base/resolved_path.h"
#include "base/text.h"
#include "engines/runs/figure_sense.h"
#include "engines/runs/import/byte_source.h"
#include "engines/runs/import/format.h"
#include "engines/runs/import/loose_json.h"
#include "engines/runs/import/placement.h"
#include "engines/runs/import/runs_of_file.h"
#include "engines/runs/import/survey.h"
#include "engines/runs/show.h"

namespace mpnanny::imports {
namespace {

constexpr uint64_t kMaxDocumentBytes = 256u << 20;
constexpr size_t kMaxLineBytes = 1 << 20;
constexpr char kHistory[] = "log_history";

// The figures of one object.
class Row {
 public:
  // Null: the figures get no names of their own.
  explicit Row(FigureStore* store) : store_(store) {}

  // `from`: how many keys of a path lead to the object.
  void Add(const LooseValue& value, size_t from) {
    const std::string name = JoinPath(value.path, from);
    const std::string key = LowerCase(name);
    if (value.number) {
      if (key == "timestamp" || key == "_timestamp" || key == "wall_time" || key == "time") {
        if (*value.number > 1e9 && *value.number < 1e11) at_ = value.number;
      }
      if (key == "train_runtime") closing_ = true;
      const Field field = FieldOf(key);
      figures_.Add(field, key, *value.number);
      const bool time = key == "timestamp" || key == "_timestamp" || key == "wall_time";
      if (!time) named_.emplace_back(name, *value.number);
      has_score_ = has_score_ || IsScore(name);
    } else if (value.text &&
               (key == "mode" || key == "split" || key == "phase" || key == "stage")) {
      if (!IsAside(LowerCase(*value.text))) return;
      evaluation_ = true;
      split_ = *value.text;
    }
  }
  Figures Take() {
    // The closing entry gives means over the whole training, which are no step's.
    Figures figures = closing_ ? Figures() : figures_.Take();
    if (evaluation_) {
      const std::optional<double> loss = figures.eval_loss ? figures.eval_loss : figures.loss;
      const std::optional<double> step = figures.step;
      figures = {};
      figures.step = step;
      figures.eval_loss = loss;
      figures.eval_name = "loss";
    }
    figures.at = at_;
    figures.has_score = has_score_ && !closing_;
    for (const auto& [name, value] : named_) {
      if (!store_) break;
      // Of another split under the same names.
      const auto id = store_->IdOf(evaluation_ ? split_ + "/" + name : name);
      if (id && !closing_) figures.named.push_back({*id, value});
    }
    Clear();
    return figures;
  }
  void Clear() {
    figures_ = {};
    at_.reset();
    named_.clear();
    closing_ = evaluation_ = has_score_ = false;
  }

 private:
  bool IsScore(const std::string& name) {
    const auto [it, is_new] = scores_.try_emplace(name, false);
    if (is_new) it->second = runs::IsScore(name);
    return it->second;
  }

  FigureStore* store_;  // borrowed
  FigureCollector figures_;
  std::vector<std::pair<std::string, double>> named_;
  std::string split_;
  std::optional<double> at_;
  bool closing_ = false, evaluation_ = false, has_score_ = false;
  std::map<std::string, bool> scores_;  // which names are
};

std::string_view WithoutMark(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  while (!text.empty() && std::string_view(" \t\r\n").find(text.front()) != std::string_view::npos)
    text.remove_prefix(1);
  return text;
}

// --- documents ---------------------------------------------------------------------------------

bool FitsDocument(const FileHead& head) {
  const std::string_view text = WithoutMark(head.bytes);
  if (text.starts_with("{")) return text.find("\"log_history\"") != std::string_view::npos;
  if (!text.starts_with("[")) return false;
  return WithoutMark(text.substr(1)).starts_with("{");
}

// HF's name, in the folder or in the newest of its checkpoints.
std::vector<std::string> PickDocument(const Folder& folder) {
  constexpr char kName[] = "trainer_state.json";
  if (std::binary_search(folder.files.begin(), folder.files.end(), kName)) return {kName};
  double newest = -1;
  std::vector<std::string> picked;
  for (const std::string& name : folder.folders) {
    constexpr std::string_view kCheckpoint = "checkpoint-";
    if (!name.starts_with(kCheckpoint)) continue;
    const auto step = NumberOf(name.substr(kCheckpoint.size()));
    std::error_code ec;
    if (!step || *step <= newest ||
        !std::filesystem::is_regular_file(folder.path + "/" + name + "/" + kName, ec)) {
      continue;
    }
    newest = *step;
    picked = {name + "/" + kName};
  }
  return picked;
}

Result<void> ReadDocument(const std::vector<std::string>& files, Import& into) {
  MPN_TRY_ASSIGN(auto text, ReadResolvedFile(files.front(), kMaxDocumentBytes));
  const std::string_view document = WithoutMark(text);
  const size_t depth = document.starts_with("[") ? 1 : 2;  // where the rows are
  const auto in_row = [&](const std::vector<std::string>& path) {
    return path.size() >= depth && (depth == 1 || path[0] == kHistory);
  };
  Survey survey;
  Placement placement(into.recorder);
  const auto read = [&](Row row, const std::function<void(Figures)>& take) {
    LooseEvents events;
    events.value = [&](const LooseValue& value) {
      if (value.path.size() > depth && in_row(value.path)) row.Add(value, depth);
    };
    events.end_object = [&](const std::vector<std::string>& path) {
      if (path.size() == depth && in_row(path)) take(row.Take());
    };
    return ReadLooseJson(document, events);
  };
  read(Row(nullptr), [&](const Figures& figures) { survey.Add(figures); });
  survey.Settle();
  int64_t rows = 0;
  const bool whole = read(Row(&into.recorder.figures()), [&](Figures figures) {
    ++rows;
    survey.Judge(figures);
    placement.Add(figures);
  });
  into.counts = runs::Count(rows, "entry", "entries");
  placement.Finish();
  into.numbered = placement.numbered();
  into.of_players = placement.of_players();
  placement.AddNotes(into.notes);
  survey.AddNotes(into.notes);
  if (!whole) {
    into.notes.push_back(
        "The file ends, or stops being JSON, before its end: what stands before "
        "that was read.");
  }
  return {};
}

// --- lines -------------------------------------------------------------------------------------

bool FitsLines(const FileHead& head) {
  LineReader lines(ByteSource::OfText(head.bytes), kMaxLineBytes);
  while (const auto line = lines.Next()) {
    if (line->empty()) continue;
    bool any = false;
    return line->starts_with("{") &&
           ReadLooseJson(*line, {[&](const LooseValue&) { any = true; }, {}}) && any;
  }
  return false;
}

// Calls `take` with the line's number and its figures.
Result<int64_t> ForEachLine(const std::string& path, FigureStore* store, Import& into,
                            int64_t& broken, const std::function<void(int64_t, Figures)>& take) {
  MPN_TRY_ASSIGN(auto source, ByteSource::OfFile(path));
  LineReader lines(std::move(source), kMaxLineBytes);
  Row row(store);
  const LooseEvents events{[&](const LooseValue& value) { row.Add(value, 0); }, {}};
  int64_t read = 0;
  broken = 0;
  while (!into.recorder.Full()) {
    const auto line = lines.Next();
    if (!line) break;
    if (line->empty()) continue;
    if (++read % 1024 == 0) MPN_TRY(into.recorder.cancel().Check());
    if (ReadLooseJson(*line, events)) {
      take(lines.number(), row.Take());
    } else {
      row.Clear();
      ++broken;
    }
  }
  return read;
}

Result<void> ReadLines(const std::vector<std::string>& files, Import& into) {
  into.texts = files;
  Survey survey;
  int64_t broken = 0;
  MPN_TRY(ForEachLine(files.front(), nullptr, into, broken,
                      [&](int64_t, const Figures& figures) { survey.Add(figures); }));
  survey.Settle();
  RunsOfFile runs_of_file(into);
  MPN_TRY_ASSIGN(const int64_t read, ForEachLine(files.front(), &into.recorder.figures(), into,
                                                 broken, [&](int64_t line, Figures figures) {
                                                   survey.Judge(figures);
                                                   if (figures.turn == Turn::kRun)
                                                     runs_of_file.BeginRun(line);
                                                   runs_of_file.Add(line, figures);
                                                 }));
  into.counts = runs::Count(read, "line");
  runs_of_file.Finish();
  survey.AddNotes(into.notes);
  if (broken > 0) {
    into.notes.push_back(runs::Count(broken, "line") + " that are no JSON were left out.");
  }
  return {};
}

}  // namespace

const Format kTrainerState{"JSON log", FitsDocument, PickDocument, ReadDocument};
const Format kJsonLines{"JSON-lines log", FitsLines, nullptr, ReadLines};

}  // namespace mpnanny::imports
