// Parquet files through DuckDB: the rows of a table go batch by batch from where they are read into
// the file, so that memory does not grow with their number.
//
// A ParquetWriter owns a DuckDB of its own in memory and belongs to one thread, in which a source
// is asked for one batch after the other while Write() runs. All of a process use one library.
#ifndef MPNANNY_ENGINES_EXPORT_PARQUET_WRITER_H_
#define MPNANNY_ENGINES_EXPORT_PARQUET_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engines/export/duckdb_calls.h"

namespace mpnanny::exports {

enum class ColumnType { kInteger, kReal, kText, kBlob };

struct Column {
  std::string name;
  ColumnType type = ColumnType::kText;
};

// Some thousand rows of all columns, being filled; a value that is not put is NULL. Columns and
// rows count from 0, and a value has the type of its column.
class Batch {
 public:
  // Full by the number of its rows, or by the bytes of its texts and blobs, which a file from
  // elsewhere may make as long as it likes.
  bool Full(size_t rows) const { return rows == capacity_ || bytes_ >= kMaxBytes; }
  void Put(size_t column, size_t row, int64_t value);
  void Put(size_t column, size_t row, double value);
  void Put(size_t column, size_t row, std::string_view bytes);  // a text is UTF-8

 private:
  friend class ParquetWriter;
  static constexpr size_t kMaxBytes = 8 << 20;
  struct Vector {
    void* data;
    uint64_t* validity;
    void* handle;
  };
  Batch(const DuckdbCalls& calls, void* chunk, size_t columns);
  void SetKnown(const Vector& vector, size_t row) {
    vector.validity[row / 64] |= uint64_t{1} << (row % 64);
  }

  const DuckdbCalls& calls_;  // borrowed
  size_t capacity_;
  size_t bytes_ = 0;
  std::vector<Vector> vectors_;
};

class RowSource {
 public:
  virtual ~RowSource() = default;
  // Fills rows from the first on and says how many; 0 at the end. An error ends the file.
  virtual Result<size_t> Fill(Batch& batch) = 0;
};

class ParquetWriter {
 public:
  // `scratch`: a folder for what DuckDB cannot hold in memory.
  static Result<ParquetWriter> Open(DuckdbCalls calls, const std::string& scratch);

  // Writes all rows of `source` into `path`. What stands there after an error is no whole file.
  Result<void> Write(const std::vector<Column>& columns, RowSource& source,
                     const std::string& path);

  // A statement of which only the success matters.
  Result<void> Execute(const std::string& sql);

  std::string version() const;

 private:
  struct Session;
  struct Stream;
  struct EndSession {
    void operator()(Session* session) const;
  };
  explicit ParquetWriter(std::unique_ptr<Session, EndSession> session)
      : session_(std::move(session)) {}
  Result<void> Offer(const std::string& name, Stream& stream);
  static void Bind(void* info) noexcept;
  static void Next(void* info, void* chunk) noexcept;

  std::unique_ptr<Session, EndSession> session_;
};

// `text` as a literal of SQL.
std::string SqlText(std::string_view text);

}  // namespace mpnanny::exports

#endif  // MPNANNY_ENGINES_EXPORT_PARQUET_WRITER_H_
