// The rows of one table of all parts, read from SQLite and put into batches: what a ParquetWriter
// writes.
//
// Borrows the parts and the table, which outlive it. Used by one thread.
#ifndef MPNANNY_ENGINES_EXPORT_TABLE_ROWS_H_
#define MPNANNY_ENGINES_EXPORT_TABLE_ROWS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "engines/export/parquet_writer.h"
#include "engines/export/parts.h"
#include "engines/export/tables.h"

namespace mpnanny::exports {

class TableRows : public RowSource {
 public:
  // `told`: is called with the rows so far, now and then.
  TableRows(const Table& table, const std::vector<Part>& parts, const CancelToken& cancel,
            std::function<void(int64_t)> told);

  // Of the file: run, rank, then the table's, with a layer's name behind its id.
  const std::vector<Column>& columns() const { return columns_; }

  // A part that cannot be read to its end leaves a note and the rows before; only a call that
  // nobody waits for fails.
  Result<size_t> Fill(Batch& batch) override;

  int64_t rows() const { return rows_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  // Where a column of the file comes from.
  struct Place {
    size_t to;  // its place in the file
    int from;   // in the statement; kLayerName: the layer's name
    ColumnType type;
  };
  Result<void> Open(const Part& part);
  void Close();
  Result<bool> ReadRow(Batch& batch, size_t row);
  void PutLayer(Batch& batch, size_t row, size_t column);
  void PutText(Batch& batch, size_t row, size_t column, const std::string& text);
  void NoteOfPart(const std::string& what);

  const Table& table_;
  const std::vector<Part>& parts_;
  const CancelToken& cancel_;
  std::function<void(int64_t)> told_;
  std::vector<Column> columns_;
  std::vector<Place> places_;
  std::string selected_;  // the columns that are asked for, with commas
  int layer_id_ = -1;     // in the statement

  size_t next_ = 0;  // part
  const Part* part_ = nullptr;
  std::unique_ptr<runs::Database> opened_;  // of the part, if it does not stay open
  std::optional<runs::Statement> statement_, layer_;
  std::unordered_map<int64_t, std::optional<std::string>> layers_;
  int64_t rows_ = 0, rows_of_part_ = 0, odd_texts_ = 0, odd_types_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace mpnanny::exports

#endif  // MPNANNY_ENGINES_EXPORT_TABLE_ROWS_H_
