#include "engines/runs/import/table.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/text.h"
#include "engines/runs/figure_sense.h"

namespace mpnanny::imports {
namespace {

constexpr size_t kMaxColumns = 5'000;

// A header names things; figures and sentences are none.
bool NamesColumn(const std::string& cell) {
  if (cell.empty() || cell.size() > 200) return false;
  size_t at = 0;
  if (NumberAt(cell, at) || std::count(cell.begin(), cell.end(), ' ') > 3) return false;
  // "loss 3.25" is a figure.
  const std::string last = cell.substr(cell.rfind(' ') + 1);
  if (last.size() < cell.size() && last.find('.') != std::string::npos && NumberOf(last)) {
    return false;
  }
  // And so is "Loss:3.25", where "IoU=0.50:0.95" is a name.
  const size_t colon = cell.find(':');
  const auto is_word = [](unsigned char c) { return std::isalpha(c) || c == '_' || c == ' '; };
  if (colon != std::string::npos && colon > 0 &&
      std::all_of(cell.begin(), cell.begin() + static_cast<ptrdiff_t>(colon), is_word)) {
    at = cell.find_first_not_of(' ', colon + 1);
    if (at != std::string::npos && NumberAt(cell, at)) return false;
  }
  return std::all_of(cell.begin(), cell.end(), [](unsigned char c) {
    return std::isalnum(c) || c >= 0x80 ||
           std::string_view("_/.- ()[]#:%@,").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

void TrimBlanks(std::string& cell) {
  while (!cell.empty() && (cell.back() == ' ' || cell.back() == '\t')) cell.pop_back();
  size_t start = 0;
  while (start < cell.size() && (cell[start] == ' ' || cell[start] == '\t')) ++start;
  cell.erase(0, start);
}

// Cells with blanks between them. A bar of progress at the end is none; the colon before it
// neither.
std::vector<std::string> AlignedCells(std::string_view line) {
  if (const auto bar = FindBar(line)) line = bar->before;
  std::vector<std::string> cells;
  for (size_t i = 0; i < line.size() && cells.size() <= kMaxColumns;) {
    const size_t start = line.find_first_not_of(" \t", i);
    if (start == std::string_view::npos) break;
    i = std::min(line.find_first_of(" \t", start), line.size());
    cells.emplace_back(line.substr(start, i - start));
  }
  return cells;
}

// "3/100" of an epoch's cell: the third.
std::optional<double> BeforeSlash(const std::string& cell) {
  const size_t slash = cell.find('/');
  if (slash == std::string::npos || !NumberOf(cell.substr(slash + 1))) return std::nullopt;
  return NumberOf(cell.substr(0, slash));
}

// "2,31" of a spreadsheet that writes a comma before the decimals.
std::string WithPoint(std::string cell) {
  if (std::count(cell.begin(), cell.end(), ',') == 1) cell[cell.find(',')] = '.';
  return cell;
}

}  // namespace

std::vector<std::string> Cells(std::string_view line, char separator) {
  std::vector<std::string> cells;
  std::string cell;
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      cell += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == separator && !quoted) {
      TrimBlanks(cell);
      cells.push_back(std::move(cell));
      cell.clear();
      if (cells.size() > kMaxColumns) return cells;
    } else {
      cell += c;
    }
  }
  TrimBlanks(cell);
  cells.push_back(std::move(cell));
  return cells;
}

std::optional<Table> Table::OfHeader(std::string_view line, bool scores) {
  Table table;
  std::vector<std::string> cells;
  const std::string lower = LowerCase(line.substr(0, 20'000));
  if (!scores && lower.find("loss") == std::string::npos &&
      lower.find("norm") == std::string::npos && lower.find("scale") == std::string::npos) {
    return std::nullopt;
  }
  for (const char separator : {',', '\t', ';', '|'}) {
    if (line.find(separator) == std::string_view::npos) continue;
    auto split = Cells(line, separator);
    if (split.size() > cells.size()) {
      cells = std::move(split);
      table.separator_ = separator;
    }
  }
  if (cells.empty()) {
    cells = AlignedCells(line);
    const Field first = cells.size() < 3 ? Field::kNone : FieldOf(LowerCase(cells.front()));
    if (first != Field::kEpoch && first != Field::kStep) return std::nullopt;
    table.separator_ = ' ';
  }
  if (cells.size() < 2 || cells.size() > kMaxColumns) return std::nullopt;
  // An index written without a name ("pandas") is the first cell.
  for (size_t i = 0; i < cells.size(); ++i) {
    if (!NamesColumn(cells[i]) && !(i == 0 && cells[i].empty())) return std::nullopt;
  }
  // Which column is read for each field.
  int best[kFields];
  std::fill(std::begin(best), std::end(best), -1);
  for (size_t i = 0; i < cells.size(); ++i) {
    Column column{cells[i], LowerCase(cells[i]), Field::kNone};
    column.field = FieldOf(column.key);
    table.columns_.push_back(std::move(column));
    const auto field = static_cast<size_t>(table.columns_[i].field);
    if (table.columns_[i].field == Field::kNone) continue;
    if (best[field] < 0 ||
        RankOf(table.columns_[i].field, table.columns_[i].key) >
            RankOf(table.columns_[i].field, table.columns_[static_cast<size_t>(best[field])].key)) {
      best[field] = static_cast<int>(i);
    }
  }
  table.has_score_ = std::any_of(table.columns_.begin(), table.columns_.end(),
                                 [](const Column& each) { return runs::IsScore(each.name); });
  bool useful = scores && table.has_score_;
  for (const Field field : {Field::kLoss, Field::kGradNorm, Field::kScale}) {
    useful = useful || best[static_cast<size_t>(field)] >= 0;
  }
  if (!useful) return std::nullopt;
  for (const int chosen : best) {
    if (chosen >= 0) table.columns_[static_cast<size_t>(chosen)].chosen = true;
  }
  return table;
}

bool Table::Has(Field field) const {
  return std::any_of(columns_.begin(), columns_.end(),
                     [&](const Column& column) { return column.field == field; });
}

std::optional<Figures> Table::Read(std::string_view line, FigureStore* names) const {
  const bool aligned = separator_ == ' ';
  const std::vector<std::string> cells = aligned ? AlignedCells(line) : Cells(line, separator_);
  if (cells.size() != columns_.size()) return std::nullopt;
  Figures figures;
  for (size_t i = 0; i < cells.size(); ++i) {
    const Column& column = columns_[i];
    if (cells[i].empty() || (column.field == Field::kNone && !names)) continue;
    if (column.field == Field::kLoss) figures.players.Add(column.key);
    auto value = NumberOf(cells[i]);
    if (!value && separator_ == ';') value = NumberOf(WithPoint(cells[i]));
    if (!value && column.field == Field::kEpoch) value = BeforeSlash(cells[i]);
    if (!value) continue;
    if (const auto id = names ? names->IdOf(column.name) : std::nullopt) {
      figures.named.push_back({*id, *value});
    }
    if (column.field == Field::kNone) continue;
    if (!column.chosen) {
      if (column.field == Field::kLoss && !std::isfinite(*value)) figures.bad_part = value;
      continue;
    }
    if (column.field == Field::kEvalLoss) figures.eval_name = column.key;
    if (column.field == Field::kLoss) figures.loss_key = column.key;
    if (column.field == Field::kGradNorm) figures.norm_key = column.key;
    if (column.field == Field::kScale) figures.scale_key = column.key;
    if (column.field == Field::kLr) figures.lr_key = column.key;
    if (column.field == Field::kStep) figures.step_key = column.key;
    std::optional<double>* const into = column.field == Field::kEpoch      ? &figures.epoch
                                        : column.field == Field::kStep     ? &figures.step
                                        : column.field == Field::kLoss     ? &figures.loss
                                        : column.field == Field::kGradNorm ? &figures.grad_norm
                                        : column.field == Field::kScale    ? &figures.scale
                                        : column.field == Field::kEvalLoss ? &figures.eval_loss
                                                                           : &figures.lr;
    *into = value;
  }
  if (!figures.loss || !std::isfinite(*figures.loss)) figures.bad_part.reset();
  figures.has_score = has_score_;
  if (const auto bar = aligned && !figures.step ? FindBar(line) : std::nullopt) {
    figures.step = bar->done;
    figures.of_bar = true;
  }
  return figures;
}

}  // namespace mpnanny::imports
