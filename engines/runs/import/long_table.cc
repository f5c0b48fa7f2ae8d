// CSV files with a row a value, as exports of TensorBoard (wall_time, tag, step, value), of MLflow
// (key, value, step, timestamp) and of pandas' melt() are: named series over steps.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/text.h"
#include "engines/runs/import/byte_source.h"
#include "engines/runs/import/field.h"
#include "engines/runs/import/format.h"
#include "engines/runs/import/series.h"
#include "engines/runs/import/table.h"
#include "engines/runs/show.h"

namespace mpnanny::imports {
namespace {

constexpr size_t kMaxRowBytes = 64 * 1024;

// Places of the cells that a row is read by.
struct Columns {
  char separator = ',';
  size_t name = 0, step = 0, value = 0, cells = 0;
};

template <size_t n>
size_t PlaceOf(const std::vector<std::string>& cells, const char* const (&names)[n]) {
  const auto found = std::find_if(cells.begin(), cells.end(), [&](const std::string& cell) {
    return std::find(std::begin(names), std::end(names), LowerCase(cell)) != std::end(names);
  });
  return static_cast<size_t>(found - cells.begin());
}

std::optional<Columns> ColumnsOf(std::string_view header) {
  for (const char separator : {',', '\t', ';'}) {
    const std::vector<std::string> cells = Cells(header, separator);
    constexpr const char* kNames[] = {"tag", "metric", "key", "variable", "series", "name"};
    constexpr const char* kSteps[] = {"step", "global_step", "iteration", "iter"};
    constexpr const char* kValues[] = {"value", "scalar"};
    const Columns found{separator, PlaceOf(cells, kNames), PlaceOf(cells, kSteps),
                        PlaceOf(cells, kValues), cells.size()};
    if (std::max({found.name, found.step, found.value}) < cells.size()) return found;
  }
  return std::nullopt;
}

bool Fits(const FileHead& head) {
  LineReader lines(ByteSource::OfText(head.bytes), kMaxRowBytes);
  const auto header = lines.Next();
  return header && ColumnsOf(*header);
}

Result<void> Read(const std::vector<std::string>& files, Import& into) {
  MPN_TRY_ASSIGN(auto source, ByteSource::OfFile(files.front()));
  LineReader lines(std::move(source), kMaxRowBytes);
  const auto header = lines.Next();
  const auto columns = header ? ColumnsOf(*header) : std::nullopt;
  if (!columns) return InvalidInput(EscapeControl(files.front()) + " has no header.");
  Series series(into);
  int64_t rows = 0, odd = 0;
  while (!into.recorder.Full()) {
    const auto line = lines.Next();
    if (!line) break;
    if (line->empty()) continue;
    if (++rows % 1024 == 0) {
      MPN_TRY(into.recorder.cancel().Check());
    }
    const std::vector<std::string> cells = Cells(*line, columns->separator);
    const bool whole = cells.size() == columns->cells;
    const auto step = whole ? NumberOf(cells[columns->step]) : std::nullopt;
    const auto value = whole ? NumberOf(cells[columns->value]) : std::nullopt;
    if (!value || !step || !IsCount(step)) {
      ++odd;
      continue;
    }
    series.Add(cells[columns->name], static_cast<int64_t>(*step), *value, std::nullopt);
  }
  into.counts = runs::Count(rows, "row") + " of a value each";
  series.Finish();
  if (odd > 0) {
    into.notes.push_back(runs::Count(odd, "row") + " without a step or a value was left out.");
  }
  return {};
}

}  // namespace

const Format kLongTable{"table of values (CSV)", Fits, nullptr, Read};

}  // namespace mpnanny::imports
