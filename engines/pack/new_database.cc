#include "engines/pack/new_database.h"

#include <span>

#include "base/data_files.h"
#include "base/new_file.h"
#include "base/text.h"

namespace mpnanny {
std::span<const EmbeddedFile> EmbeddedSchema();  // generated from monitor/schema/*.sql
}

namespace mpnanny::pack {

Insertion& Insertion::Add(int64_t value) {
  sqlite3_bind_int64(statement_.get(), ++at_, value);
  return *this;
}
Insertion& Insertion::Add(const std::optional<int64_t>& value) {
  return value ? Add(*value) : AddNull();
}
Insertion& Insertion::Add(const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return AddNull();
  sqlite3_bind_double(statement_.get(), ++at_, *value);
  return *this;
}
Insertion& Insertion::Add(std::string_view text) {
  sqlite3_bind_text64(statement_.get(), ++at_, text.data() ? text.data() : "", text.size(),
                      SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}
Insertion& Insertion::AddOrNull(std::string_view text) {
  return text.empty() ? AddNull() : Add(text);
}
Insertion& Insertion::AddBlob(const std::optional<std::string>& bytes) {
  if (!bytes) return AddNull();
  sqlite3_bind_blob64(statement_.get(), ++at_, bytes->data(), bytes->size(), SQLITE_TRANSIENT);
  return *this;
}
Insertion& Insertion::AddNull() {
  sqlite3_bind_null(statement_.get(), ++at_);
  return *this;
}

Result<void> Insertion::Insert() {
  at_ = 0;
  const int code = sqlite3_step(statement_.get());
  sqlite3_reset(statement_.get());
  if (code == SQLITE_DONE) return {};
  return database_->Failure();
}

Result<NewDatabase> NewDatabase::Create(const std::string& path) {
  // By us first: SQLite would make it readable for others.
  MPN_TRY(NewFile::Create(path));
  NewDatabase database(path);
  sqlite3* opened = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  database.handle_.reset(opened);
  if (code != SQLITE_OK) return database.Failure();
  // No journal: a file that is not finished is thrown away.
  if (auto set = database.Execute("PRAGMA journal_mode=OFF; PRAGMA locking_mode=EXCLUSIVE"); !set) {
    return set.error();
  }
  for (const EmbeddedFile& file : EmbeddedSchema()) {
    MPN_TRY(database.Execute(std::string(file.text)));
  }
  MPN_TRY(database.Execute("BEGIN"));
  return database;
}

Result<Insertion> NewDatabase::Into(std::string_view table, std::string_view columns) const {
  std::string sql =
      "INSERT OR IGNORE INTO " + std::string(table) + " (" + std::string(columns) + ") VALUES (?";
  for (const char c : columns) sql += c == ',' ? ",?" : "";
  sql += ")";
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle_.get(), sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) {
    return Failure();
  }
  return Insertion(this, statement);
}

Result<void> NewDatabase::Execute(const std::string& sql) const {
  if (sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return Failure();
}

int64_t NewDatabase::Bytes() const {
  int64_t product = 1;
  for (const char* pragma : {"PRAGMA page_count", "PRAGMA page_size"}) {
    sqlite3_stmt* statement = nullptr;
    sqlite3_prepare_v2(handle_.get(), pragma, -1, &statement, nullptr);
    if (statement && sqlite3_step(statement) == SQLITE_ROW) {
      product *= sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
  }
  return product;
}

Result<void> NewDatabase::Finish() {
  if (auto done = Execute("COMMIT"); !done) return done;
  handle_.reset();
  return {};
}

Error NewDatabase::Failure() const {
  const std::string why = handle_ ? sqlite3_errmsg(handle_.get()) : "out of memory";
  return Unavailable(EscapeControl(path_) + " cannot be written (" + EscapeControl(why, 300) + ").",
                     "Is there room on the disk?");
}

}  // namespace mpnanny::pack
