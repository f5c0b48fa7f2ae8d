// The records of console output: its lines, and tables of two columns that are drawn row by row,
// "│ loss │ 2.31 │", each as one record.
//
// Text from outside. One owner on one thread.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_TEXT_RECORDS_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_TEXT_RECORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engines/runs/import/byte_source.h"
#include "engines/runs/import/count_column.h"
#include "engines/runs/import/figure_store.h"
#include "engines/runs/import/log_line.h"
#include "engines/runs/import/table.h"

namespace mpnanny::imports {

struct TextRecord {
  std::string_view line;  // of a drawn table, its rows as pairs; valid until the next record
  int64_t number = 0;     // of its line in the file, from 1
  int64_t lines = 1;      // of the file that it stands in
  bool was_cut = false, of_table = false;
  Figures figures;
};

class TextRecords {
 public:
  // `names` may be null: then figures have no names of their own. `column` as well: it gives the
  // step of a record that does not name it.
  TextRecords(ByteSource source, FigureStore* names, const CountColumn* column)
      : lines_(std::move(source)), names_(names), column_(column) {}

  // The next line that is not empty; nullopt at the end.
  std::optional<TextRecord> Next();

 private:
  bool AddRow(std::string_view line);
  TextRecord Read(std::string_view line);

  LineReader lines_;
  FigureStore* names_;         // borrowed
  const CountColumn* column_;  // borrowed
  std::optional<Table> table_;
  // Rows of a drawn table, and the line behind it.
  std::string rows_, given_, pending_;
  int64_t rows_number_ = 0, rows_count_ = 0, pending_number_ = 0;
  bool has_pending_ = false, pending_cut_ = false, after_border_ = false;
  std::optional<double> title_;  // the step that the line before a table says
};

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_TEXT_RECORDS_H_
