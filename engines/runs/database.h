// A monitor's database, opened for reading: the one place that talks to SQLite on behalf of the
// tools. A training in a team's database (engines/team) is asked through the same two classes.
//
// The file comes from elsewhere and may be live, damaged or hostile: it is opened read-only, one
// consistent snapshot is read through it, views and triggers of the file never run, and a call that
// is cancelled or out of time stops in the middle of a query. Memory is bounded by a small page
// cache. A Database belongs to one call on one thread and must outlive its Statements; nothing of
// it stays open between calls.
#ifndef MPNANNY_ENGINES_RUNS_DATABASE_H_
#define MPNANNY_ENGINES_RUNS_DATABASE_H_

#include <sqlite3.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/resolved_path.h"
#include "base/result.h"
#include "engines/team/snapshot.h"

namespace mpnanny::runs {

// What monitor/schema/*.sql writes into the file's header, PRAGMA user_version among it: the oldest
// schema whose readers understand the file. One of 1 may have tables and columns of a later
// monitor, which HasColumn() tells: what only adds leaves the number. (base/version.h: the schema
// itself.)
inline constexpr int64_t kApplicationId = 0x4d504e59;  // "MPNY"
inline constexpr int64_t kOldestUserVersion = 1;
inline constexpr int64_t kNewestUserVersion = 2;

class Database;

// A prepared SELECT. Columns count from 0, parameters from 1. A value of an unexpected type reads
// as absent.
class Statement {
 public:
  Statement& Bind(int index, int64_t value);
  Statement& Bind(int index, double value);
  Statement& Bind(int index, std::string_view value);

  // Goes to the next row; false at the end.
  Result<bool> Next();
  // Ready to be run again; bindings stay.
  void Reset() {
    if (of_server_) return of_server_->Reset();
    sqlite3_reset(statement_.get());
  }

  // One call finds the value, the others only look at it: sqlite3_column_type() and _double() would
  // each find it again, which is most of what a scan of many steps costs.
  std::optional<int64_t> Int(int column) const {
    if (of_server_) return of_server_->Int(column);
    sqlite3_value* const value = sqlite3_column_value(statement_.get(), column);
    if (sqlite3_value_type(value) != SQLITE_INTEGER) return std::nullopt;
    return sqlite3_value_int64(value);
  }
  std::optional<double> Real(int column) const {  // of an integer as well
    if (of_server_) return of_server_->Real(column);
    sqlite3_value* const value = sqlite3_column_value(statement_.get(), column);
    const int type = sqlite3_value_type(value);
    if (type != SQLITE_FLOAT && type != SQLITE_INTEGER) return std::nullopt;
    return sqlite3_value_double(value);
  }
  std::optional<std::string> Text(int column) const;
  std::optional<std::string> Blob(int column) const;
  bool IsNull(int column) const {
    return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
  }
  int64_t IntOr(int column, int64_t otherwise) const { return Int(column).value_or(otherwise); }
  std::string TextOr(int column, std::string_view otherwise = "") const {
    return Text(column).value_or(std::string(otherwise));
  }

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  Statement(const Database* database, sqlite3_stmt* statement)
      : database_(database), statement_(statement) {}
  Statement(const Database* database, std::unique_ptr<team::Select> select)
      : database_(database), of_server_(std::move(select)) {}

  const Database* database_;  // borrowed
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  std::unique_ptr<team::Select> of_server_;  // in its place
};

class Database {
 public:
  // `path` is canonical and allowed; no link on it is followed. Neither the file nor what lies
  // beside it is changed, and nothing is made there. Fails with what is wrong and what to try:
  // missing, a directory, not a database, some other program's database, another schema version,
  // damaged, locked, or unreadable where it lies.
  static Result<std::unique_ptr<Database>> Open(const std::string& path, const CancelToken& cancel);

  // The database of another program, whose tables an importer reads: opened as carefully.
  static Result<std::unique_ptr<Database>> OpenOther(const std::string& path,
                                                     const CancelToken& cancel);

  // A database of our own, filled by an importer, from now on read as any other. Takes `handle`;
  // `path`: what was imported, canonical.
  static std::unique_ptr<Database> Adopt(sqlite3* handle, const std::string& path,
                                         const CancelToken& cancel);

  // A training of a team's database, all ranks of it: `run_id` is the rank. `path`: its URL.
  static std::unique_ptr<Database> OfTraining(std::unique_ptr<team::Snapshot> training,
                                              const std::string& path, const CancelToken& cancel);

  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Prepares one SELECT. The error of a file that lacks a table or a column is DataCorrupt.
  Result<Statement> Prepare(std::string_view sql) const;
  // All ranks of a distributed run lie in here, in one table each: what is merged over them can be
  // asked for at once.
  bool holds_training() const { return training_ != nullptr; }

  // True if the file has the table with this column. Both names are our own words.
  bool HasColumn(std::string_view table, std::string_view column) const;
  // "a, NULL, c" of columns of which the file lacks the second: for files of an earlier version.
  std::string ColumnsOrNull(std::string_view table,
                            std::initializer_list<std::string_view> columns) const;

  // SQLite's result code as an error in words.
  Error Failure(int code) const;

  // From now on queries end with DeadlineExceeded once `limit` is over, however long the call's own
  // deadline: what a question has until then is its answer.
  void LimitTime(CancelToken::Clock::duration limit);
  bool time_is_up() const { return CancelToken::Clock::now() >= until_; }

  const std::string& path() const { return path_; }
  const CancelToken& cancel() const { return cancel_; }
  // The file says that changes stand in a "-wal" file, and there is none: copied without it, or it
  // was deleted.
  bool wal_missing() const { return wal_missing_; }
  // What limits the reading of a database that another monitor wrote.
  const std::vector<std::string>& notes() const { return notes_; }
  // One file without a WAL: an ended run, or the copy that a monitor publishes now and then.
  bool plain() const { return plain_; }
  // Two databases with one stamp hold the same. "" where that cannot be told: somebody may be
  // writing or just was, the file lies across a network, or it is no file.
  const std::string& stamp() const { return stamp_; }

 private:
  friend class Statement;
  enum class Access {
    kShared,     // somebody may write
    kUnwritten,  // nobody does, and there is no WAL
    kPublished,  // replaced and never changed: no locks
  };
  struct Close {
    void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  };
  Database(std::string path, CancelToken cancel)
      : path_(std::move(path)), cancel_(std::move(cancel)) {}
  // Open() without the question whose database it is.
  static Result<std::unique_ptr<Database>> OpenAny(const std::string& path,
                                                   const CancelToken& cancel);
  static int StopRequested(void* database);  // SQLite's progress handler
  Result<void> Connect(const std::string& file, Access access);
  Result<void> BeginSnapshot();
  Result<void> CheckIdentity();
  Result<void> PresentEarlier();

  std::string path_;
  CancelToken cancel_;
  CancelToken::Clock::time_point until_ = CancelToken::Clock::time_point::max();
  std::vector<std::string> notes_;
  bool wal_missing_ = false;
  bool plain_ = false;
  bool wal_has_content_ = false;
  std::string stamp_;
  std::optional<ResolvedFolder> folder_;  // SQLite's names lead into it; absent of a log's
  std::unique_ptr<sqlite3, Close> handle_;
  std::unique_ptr<team::Snapshot> training_;  // in its place
};

// True if the file starts as an SQLite database does. Reads 16 bytes.
bool LooksLikeDatabase(const std::string& path);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_DATABASE_H_
