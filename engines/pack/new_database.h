// A database of the monitor's schema that is written at once and never changed: what `pack` makes.
//
// The file (mode 0600) is made by Create() and belongs to the caller; everything stands in one
// transaction, so a file that is not finished holds nothing. Used by one thread.
#ifndef MPNANNY_ENGINES_PACK_NEW_DATABASE_H_
#define MPNANNY_ENGINES_PACK_NEW_DATABASE_H_

#include <sqlite3.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mpnanny::pack {

class NewDatabase;

// One table's INSERT, prepared once: values in the order of the columns, then Insert().
class Insertion {
 public:
  Insertion& Add(int64_t value);
  Insertion& Add(const std::optional<int64_t>& value);
  Insertion& Add(const std::optional<double>& value);  // not finite: NULL
  Insertion& Add(std::string_view text);
  Insertion& AddOrNull(std::string_view text);  // "": NULL
  Insertion& AddBlob(const std::optional<std::string>& bytes);
  Insertion& AddNull();
  Result<void> Insert();

 private:
  friend class NewDatabase;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  Insertion(const NewDatabase* database, sqlite3_stmt* statement)
      : database_(database), statement_(statement) {}

  const NewDatabase* database_;  // borrowed
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int at_ = 0;
};

class NewDatabase {
 public:
  // Makes `path`, which must not exist, with the schema's empty tables.
  static Result<NewDatabase> Create(const std::string& path);

  // `columns`: names with commas. A later schema may have more, which stay NULL.
  Result<Insertion> Into(std::string_view table, std::string_view columns) const;
  Result<void> Execute(const std::string& sql) const;
  int64_t Bytes() const;  // of the file, were it finished now
  Result<void> Finish();  // writes it out; afterwards it is closed

  Error Failure() const;

 private:
  struct Close {
    void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  };
  explicit NewDatabase(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::unique_ptr<sqlite3, Close> handle_;
};

}  // namespace mpnanny::pack

#endif  // MPNANNY_ENGINES_PACK_NEW_DATABASE_H_
