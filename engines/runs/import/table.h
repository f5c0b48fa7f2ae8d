// Rows of figures under a header: comma, semicolon, tab or bar between cells, quoted or not; or
// blanks, as a program that aligns its columns prints them.
//
// A value owned by one reader; the text is data from outside.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_TABLE_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_TABLE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engines/runs/import/log_line.h"

namespace mpnanny::imports {

class Table {
 public:
  // The table that a line begins (one with blanks between cells begins with its epoch or step);
  // nullopt if it is no header with a loss, a gradient norm or a loss scale, or where `scores` are
  // looked for as well, with one of them. Of several columns for
  // one figure the best-named is read: the step's rather than the epoch's mean, the total rather
  // than a part.
  static std::optional<Table> OfHeader(std::string_view line, bool scores = false);

  // The figures of a row; nullopt if it has another number of cells. `names`: who numbers the
  // names of its columns.
  std::optional<Figures> Read(std::string_view line, FigureStore* names = nullptr) const;

  bool Has(Field field) const;
  char separator() const { return separator_; }

 private:
  struct Column {
    std::string name;  // as the header has it
    std::string key;   // in lower case
    Field field = Field::kNone;
    bool chosen = false;
  };
  std::vector<Column> columns_;
  char separator_ = ',';
  bool has_score_ = false;
};

// The cells of a row, without their quotes and the blanks around them. A doubled quote within
// quotes stands for one.
std::vector<std::string> Cells(std::string_view line, char separator);

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_TABLE_H_
