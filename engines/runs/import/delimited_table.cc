// CSV files and their kin: Lightning's metrics.csv (a row a logger's call, most cells empty), a
// training script's own table, what TensorBoard and W&B export.
#include <algorithm>
#include <functional>

#include "base/text.h"
#include "engines/runs/import/byte_source.h"
#include "engines/runs/import/format.h"
#include "engines/runs/import/runs_of_file.h"
#include "engines/runs/import/survey.h"
#include "engines/runs/import/table.h"
#include "engines/runs/show.h"

namespace mpnanny::imports {
namespace {

constexpr size_t kMaxRowBytes = 256 * 1024;

// What TensorBoard exports of one tag has no name of it but the file's
// ("run-x-tag-train_loss.csv").
std::string WithTag(const std::string& name, std::string_view line) {
  std::string header = LowerCase(line);
  header.erase(std::remove(header.begin(), header.end(), '"'), header.end());
  if (header != "wall time,step,value") return std::string(line);
  const size_t tag = name.rfind("tag-");
  std::string key = name.substr(tag == std::string::npos ? 0 : tag + 4);
  if (key.ends_with(".csv")) key.resize(key.size() - 4);
  return "wall time,step," + key;
}

// The header, and with it the first row that is not empty or a remark.
std::optional<Table> HeaderOf(const std::string& name, LineReader& lines) {
  for (int tries = 0; tries < 50; ++tries) {
    const auto line = lines.Next();
    if (!line) return std::nullopt;
    if (line->empty() || line->starts_with("#")) continue;
    return Table::OfHeader(WithTag(name, *line), /*scores=*/true);
  }
  return std::nullopt;
}

bool Fits(const FileHead& head) {
  LineReader lines(ByteSource::OfText(head.bytes), kMaxRowBytes);
  const auto table = HeaderOf(head.name, lines);
  if (!table || table->separator() == ' ') return false;  // columns that a console shows
  const auto row = lines.Next();
  if (!row) return head.name.ends_with(".csv") || head.name.ends_with(".tsv");
  // A first row that the head cuts off has too few cells.
  return table->Read(*row).has_value() || lines.was_cut() || head.name.ends_with(".csv");
}

std::vector<std::string> Pick(const Folder& folder) {
  for (const char* name : {"metrics.csv", "progress.csv", "results.csv", "log.csv"}) {
    if (std::binary_search(folder.files.begin(), folder.files.end(), name)) return {name};
  }
  return {};
}

Result<void> Read(const std::vector<std::string>& files, Import& into) {
  const std::string& path = files.front();
  Survey survey;
  RunsOfFile runs_of_file(into);
  bool by_epoch = false, several_an_epoch = false;
  int64_t rows = 0, odd = 0, of_same_epoch = 0;
  const auto read = [&](FigureStore* names,
                        const std::function<void(int64_t, Figures)>& take) -> Result<void> {
    MPN_TRY_ASSIGN(auto source, ByteSource::OfFile(path));
    LineReader lines(std::move(source), kMaxRowBytes);
    const auto table = HeaderOf(path.substr(path.rfind('/') + 1), lines);
    if (!table)
      return InvalidInput(EscapeControl(path) + " has no header that names a loss or a score.");
    // An epoch stands for a step where each has a row of its own.
    by_epoch = !table->Has(Field::kStep) && table->Has(Field::kEpoch) && !several_an_epoch;
    rows = odd = of_same_epoch = 0;
    std::optional<double> epoch;
    while (!into.recorder.Full()) {
      const auto line = lines.Next();
      if (!line) break;
      if (line->empty() || line->starts_with("#")) continue;
      if (++rows % 1024 == 0) MPN_TRY(into.recorder.cancel().Check());
      auto figures = table->Read(*line, names);
      if (!figures) {
        ++odd;
        continue;
      }
      if (figures->epoch && figures->epoch == epoch) ++of_same_epoch;
      epoch = figures->epoch;
      if (by_epoch) figures->step = figures->epoch;
      take(lines.number(), *std::move(figures));
    }
    return {};
  };
  const auto add = [&](int64_t, const Figures& figures) { survey.Add(figures); };
  MPN_TRY(read(nullptr, add));
  if (2 * of_same_epoch > rows) {
    several_an_epoch = true;
    survey = Survey();
    MPN_TRY(read(nullptr, add));
  }
  survey.Settle();
  MPN_TRY(read(&into.recorder.figures(), [&](int64_t line, Figures figures) {
    survey.Judge(figures);
    if (figures.turn == Turn::kRun) runs_of_file.BeginRun(line);
    runs_of_file.Add(line, figures);
  }));
  into.counts = runs::Count(rows, "row");
  runs_of_file.Finish();
  if (by_epoch) into.notes.push_back("The table has no steps: its epochs stand for them.");
  if (odd > 0) {
    into.notes.push_back(runs::Count(odd, "row") +
                         " with another number of cells than the header was left out.");
  }
  return {};
}

}  // namespace

const Format kDelimitedTable{"table (CSV)", Fits, Pick, Read};

}  // namespace mpnanny::imports
