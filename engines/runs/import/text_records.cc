#include "engines/runs/import/text_records.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "engines/runs/import/field.h"

namespace mpnanny::imports {
namespace {

constexpr size_t kMostRowBytes = 1'000, kMostTableBytes = 100'000;

// A bar of a table, at `at`: '|' or one of the box drawing characters; its bytes, 0 for others.
size_t BarAt(std::string_view line, size_t at) {
  if (line[at] == '|') return 1;
  // U+2500 to U+257F: E2 94 80 … E2 95 BF.
  const bool box =
      line.substr(at).starts_with("\xE2\x94") || line.substr(at).starts_with("\xE2\x95");
  return box && at + 2 < line.size() ? 3 : 0;
}

std::string_view Trim(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t");
  if (start == std::string_view::npos) return {};
  return text.substr(start, text.find_last_not_of(" \t") - start + 1);
}

// The cells between the bars of a line that begins and ends with one.
std::vector<std::string_view> CellsBetweenBars(std::string_view line) {
  std::vector<std::string_view> cells;
  line = Trim(line);
  if (line.empty() || line.size() > kMostRowBytes || BarAt(line, 0) == 0) return cells;
  size_t start = std::string_view::npos;
  for (size_t at = 0; at < line.size();) {
    const size_t bar = BarAt(line, at);
    if (bar == 0) {
      ++at;
      continue;
    }
    if (start != std::string_view::npos) cells.push_back(Trim(line.substr(start, at - start)));
    at += bar;
    start = at;
  }
  return start == line.size() ? cells : std::vector<std::string_view>();
}

// "+-----+" and "├──┼──┤".
bool IsBorder(std::string_view line) {
  line = Trim(line);
  for (size_t at = 0; at < line.size();) {
    const size_t bar = BarAt(line, at);
    if (bar == 0 && line[at] != '+' && line[at] != '-' && line[at] != '=' && line[at] != ':') {
      return false;
    }
    at += std::max<size_t>(bar, 1);
  }
  return !line.empty();
}

}  // namespace

// A row of a name and its number.
bool TextRecords::AddRow(std::string_view line) {
  const auto cells = CellsBetweenBars(line);
  if (cells.size() != 2 || cells[0].empty()) return false;
  if (!std::isalpha(static_cast<unsigned char>(cells[0][0])) || !NumberOf(cells[1])) {
    return !rows_.empty();  // a heading between rows
  }
  // A name that was cut off ("…") may stand for several.
  if (cells[0].find("\xE2\x80\xA6") != std::string_view::npos || cells[0].ends_with("...")) {
    return true;
  }
  if (rows_.empty()) {
    rows_number_ = lines_.number();
    rows_count_ = 0;
  }
  ++rows_count_;
  if (rows_.size() < kMostTableBytes) {
    (rows_ += cells[0]).append(": ").append(cells[1]).append(", ");
  }
  return true;
}

TextRecord TextRecords::Read(std::string_view line) {
  TextRecord record;
  record.line = line;
  if (!table_) table_ = Table::OfHeader(line);
  std::optional<Figures> cells;
  if (table_) cells = table_->Read(line, names_);
  record.of_table = cells && cells->Any();
  record.figures = record.of_table ? *std::move(cells) : ReadFigures(line);
  Figures& figures = record.figures;
  if (!column_ || record.of_table) return record;
  if (column_->of_scores()) {
    figures.of_scores = column_->Fits(line);
    figures.other_shape = !figures.of_scores;
  }
  if (figures.step || !(figures.loss || figures.of_scores)) return record;
  if (const auto count = column_->Of(line)) {
    figures.step = count->done;
    figures.step_total = count->total;
    figures.step_key = "[]";
  }
  return record;
}

std::optional<TextRecord> TextRecords::Next() {
  while (true) {
    if (has_pending_) {
      has_pending_ = false;
      given_.swap(pending_);
      TextRecord record = Read(given_);
      record.number = pending_number_;
      record.was_cut = pending_cut_;
      const Figures& figures = record.figures;
      const bool says_more = figures.Any() || figures.eval_loss;
      const bool of_drawing = IsBorder(given_) || !CellsBetweenBars(given_).empty();
      if (says_more || figures.step || !of_drawing) {
        title_ = says_more ? std::nullopt : figures.step;
      }
      return record;
    }
    const auto line = lines_.Next();
    // Where one table ends and the next begins, two borders meet.
    const bool border = line && !rows_.empty() && IsBorder(*line);
    const bool of_table = line && !table_ && (AddRow(*line) || (border && !after_border_));
    after_border_ = border && of_table;
    if (of_table || (line && line->empty())) continue;
    if (line) {
      pending_.assign(*line);
      pending_number_ = lines_.number();
      pending_cut_ = lines_.was_cut();
      has_pending_ = true;
    }
    if (!rows_.empty()) {
      given_ = std::move(rows_);
      rows_.clear();
      TextRecord record;
      record.line = given_;
      record.number = rows_number_;
      record.lines = rows_count_;
      record.figures = ReadFigures(given_);
      if (!record.figures.step && title_) {
        record.figures.step = title_;
        record.figures.step_key = "step";
      }
      return record;
    }
    if (!line) return std::nullopt;
  }
}

}  // namespace mpnanny::imports
