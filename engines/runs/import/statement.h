// A prepared statement that writes into a database of our own (engines/runs/database.h only reads).
//
// Owned by whoever owns the database, and destroyed before it.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_STATEMENT_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_STATEMENT_H_

#include <sqlite3.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mpnanny::imports {

class Writer {
 public:
  Writer() = default;
  // A statement that cannot be prepared fails when it is run.
  Writer(sqlite3* database, std::string_view sql) {
    sqlite3_stmt* statement = nullptr;
    sqlite3_prepare_v2(database, sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
    statement_.reset(statement);
  }

  Writer& operator<<(int64_t value) {
    sqlite3_bind_int64(statement_.get(), ++at_, value);
    return *this;
  }
  Writer& operator<<(const std::optional<double>& value) {
    ++at_;
    if (value) {
      sqlite3_bind_double(statement_.get(), at_, *value);  // NaN becomes NULL
    } else {
      sqlite3_bind_null(statement_.get(), at_);
    }
    return *this;
  }
  Writer& operator<<(std::string_view text) {
    sqlite3_bind_text64(statement_.get(), ++at_, text.data(), text.size(), SQLITE_TRANSIENT,
                        SQLITE_UTF8);
    return *this;
  }
  void AddBlob(std::string_view bytes) {
    sqlite3_bind_blob64(statement_.get(), ++at_, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
  }

  // Runs it; false if it failed. For a SELECT: true while there is a row, which Int and Real read.
  bool Run() {
    const int code = statement_ ? sqlite3_step(statement_.get()) : SQLITE_ERROR;
    if (code != SQLITE_ROW) Reset();
    return code == SQLITE_DONE || code == SQLITE_ROW;
  }
  bool NextRow() {
    if (statement_ && sqlite3_step(statement_.get()) == SQLITE_ROW) return true;
    Reset();
    return false;
  }
  void Reset() {
    if (statement_) sqlite3_reset(statement_.get());
    at_ = 0;
  }
  int64_t Int(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  std::optional<double> Real(int column) const {
    const int type = sqlite3_column_type(statement_.get(), column);
    if (type != SQLITE_FLOAT && type != SQLITE_INTEGER) return std::nullopt;
    return sqlite3_column_double(statement_.get(), column);
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int at_ = 0;
};

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_STATEMENT_H_
