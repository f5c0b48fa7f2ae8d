#include "tools/runs/database.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/run_handle.h"
#include "base/text.h"

namespace mpnanny::runs {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kMagic{"SQLite format 3\0", 16};
constexpr size_t kHeaderBytes = 100;
// How long a reader waits for a writer's short exclusive moments (recovery, closing, the switch of
// the journal mode).
constexpr int kBusyMilliseconds = 1500;
constexpr int kCachePages = -4096;         // SQLite reads a negative number as KiB
constexpr int kOpsBetweenChecks = 20'000;  // virtual machine steps, about a millisecond
constexpr int kMaxValueBytes = 16 << 20;

std::string FirstBytes(const std::string& path, size_t count) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(count, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(count));
  bytes.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return bytes;
}

// What one SELECT over the monitor's tables needs, and nothing else: the schema of a file from
// elsewhere may hold anything.
int Authorize(void*, int action, const char*, const char*, const char*, const char*) {
  return action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_RECURSIVE ||
                 action == SQLITE_FUNCTION
             ? SQLITE_OK
             : SQLITE_DENY;
}

int StopRequested(void* cancel) {
  return static_cast<const CancelToken*>(cancel)->stop_requested() ? 1 : 0;
}

}  // namespace

bool LooksLikeDatabase(const std::string& path) {
  return FirstBytes(path, kMagic.size()) == kMagic;
}

Statement& Statement::Bind(int index, int64_t value) {
  sqlite3_bind_int64(statement_.get(), index, value);
  return *this;
}

Statement& Statement::Bind(int index, double value) {
  sqlite3_bind_double(statement_.get(), index, value);
  return *this;
}

Statement& Statement::Bind(int index, std::string_view value) {
  sqlite3_bind_text64(statement_.get(), index, value.data(), value.size(), SQLITE_TRANSIENT,
                      SQLITE_UTF8);
  return *this;
}

Result<bool> Statement::Next() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_->Failure(code);
}

std::optional<int64_t> Statement::Int(int column) const {
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_INTEGER) return std::nullopt;
  return sqlite3_column_int64(statement_.get(), column);
}

std::optional<double> Statement::Real(int column) const {
  const int type = sqlite3_column_type(statement_.get(), column);
  if (type != SQLITE_FLOAT && type != SQLITE_INTEGER) return std::nullopt;
  return sqlite3_column_double(statement_.get(), column);
}

std::optional<std::string> Statement::Text(int column) const {
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_TEXT) return std::nullopt;
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  const int bytes = sqlite3_column_bytes(statement_.get(), column);
  return text ? std::string(text, static_cast<size_t>(bytes)) : std::string();
}

Result<std::unique_ptr<Database>> Database::Open(const std::string& path,
                                                 const CancelToken& cancel) {
  const std::string shown = EscapeControl(path);
  std::error_code ec;
  const fs::file_status status = fs::status(path, ec);
  if (!fs::exists(status)) {
    return NotFound(shown + ": no such file.", "list_runs with a folder shows the runs below it.");
  }
  if (fs::is_directory(status)) {
    return InvalidInput(shown + " is a folder, not a monitor's database.",
                        "list_runs with this folder shows the runs below it.");
  }
  if (!fs::is_regular_file(status)) return InvalidInput(shown + " is not a regular file.");

  const std::string header = FirstBytes(path, kHeaderBytes);
  if (header.empty() && !std::ifstream(path).good()) {
    return InvalidInput(shown + " cannot be read by this user.");
  }
  if (header.empty()) {
    return InvalidInput(shown + " is empty.", "The monitor may not have written to it yet.");
  }
  if (!header.starts_with(kMagic)) {
    return InvalidInput(shown + " is not a SQLite database.",
                        "A run is named by the monitor's database (metrics.db), a text log goes "
                        "to diagnose_run as log_path.");
  }
  if (header.size() < kHeaderBytes)
    return DataCorrupt(shown + " is cut off after its first bytes.");

  std::unique_ptr<Database> database(new Database(path, cancel));
  const bool wal_mode = header[18] == 2;
  const std::string wal = path + "-wal";
  const bool wal_exists = fs::exists(wal, ec);
  const uintmax_t wal_bytes = wal_exists ? fs::file_size(wal, ec) : 0;
  database->wal_has_content_ = wal_exists && !ec && wal_bytes > 0;
  database->wal_missing_ = wal_mode && !wal_exists;
  // Without a WAL there is nothing to merge and nobody writes: "immutable" keeps SQLite from making
  // -wal and -shm files beside a file that is not ours to touch, and works in folders that cannot
  // be written.
  const bool immutable =
      wal_mode && !database->wal_has_content_ && (!wal_exists || !fs::exists(path + "-shm", ec));
  if (auto connected = database->Connect(immutable); !connected) return connected.error();
  if (auto ours = database->CheckIdentity(); !ours) return ours.error();
  sqlite3_set_authorizer(database->handle_.get(), Authorize, nullptr);
  return database;
}

Result<void> Database::Connect(bool immutable) {
  // As a URI, so that "immutable" can be said; '%', '?' and '#' of the path are encoded by that.
  std::string uri = "file:";
  for (const char c : path_) uri += c == '/' ? std::string(1, c) : PercentEncode({&c, 1});
  uri += immutable ? "?immutable=1" : "?mode=ro";
  sqlite3* opened = nullptr;
  const int code = sqlite3_open_v2(
      uri.c_str(), &opened, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  handle_.reset(opened);
  if (code != SQLITE_OK) return Failure(code);

  sqlite3_extended_result_codes(opened, 1);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_limit(opened, SQLITE_LIMIT_LENGTH, kMaxValueBytes);
  sqlite3_limit(opened, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit(opened, SQLITE_LIMIT_WORKER_THREADS, 0);
  sqlite3_busy_timeout(opened, kBusyMilliseconds);
  sqlite3_progress_handler(opened, kOpsBetweenChecks, StopRequested, &cancel_);
  // mmap_size 0: a file that another process cuts must be an error, not SIGBUS. BEGIN: all answers
  // of a call come from one state of the file.
  const std::string setup =
      "PRAGMA query_only=1; PRAGMA mmap_size=0; PRAGMA cell_size_check=1;"
      "PRAGMA temp_store=2; PRAGMA cache_size=" +
      std::to_string(kCachePages) + "; BEGIN; SELECT count(*) FROM sqlite_schema;";
  if (const int rc = sqlite3_exec(opened, setup.c_str(), nullptr, nullptr, nullptr);
      rc != SQLITE_OK) {
    return Failure(rc);
  }
  return {};
}

Result<void> Database::CheckIdentity() const {
  const auto number = [&](std::string_view sql) -> Result<int64_t> {
    auto statement = Prepare(sql);
    if (!statement) return statement.error();
    auto row = statement->Next();
    if (!row) return row.error();
    return *row ? statement->IntOr(0, 0) : 0;
  };
  const std::string shown = EscapeControl(path_);
  auto application = number("PRAGMA application_id");
  if (!application) return application.error();
  auto version = number("PRAGMA user_version");
  if (!version) return version.error();
  auto legacy = number(
      "SELECT count(*) FROM sqlite_schema WHERE type='table' AND "
      "name IN ('layer_stats','alerts','loss_scale_history')");
  if (!legacy) return legacy.error();
  auto tables = number("SELECT count(*) FROM sqlite_schema");
  if (!tables) return tables.error();

  if (*application != kApplicationId) {
    if (*legacy >= 2) {
      return Unavailable(shown +
                             " was written by the earlier Python monitor (tables layer_stats, "
                             "alerts), which this version does not read yet.",
                         "Record the run with today's monitor, or give diagnose_run its console "
                         "log as log_path.");
    }
    if (*tables == 0 && wal_missing_) {
      return DataCorrupt(shown +
                             " holds no tables; its changes were in a '-wal' file that is "
                             "not here.",
                         "Copy the -wal file along with it, or copy it after the run has ended.");
    }
    return InvalidInput(shown + " is a SQLite database of another program, not a monitor's.",
                        "list_runs with a folder shows the monitor's databases below it.");
  }
  if (*version != kSchemaVersion) {
    return Unavailable(shown + " has schema version " + std::to_string(*version) +
                           "; this mpnanny reads version " + std::to_string(kSchemaVersion) + ".",
                       *version > kSchemaVersion
                           ? "A newer monitor wrote it: update mpnanny."
                           : "The monitor may not have finished creating it.");
  }
  return {};
}

Result<Statement> Database::Prepare(std::string_view sql) const {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                                      &statement, nullptr);
  if (code != SQLITE_OK) return Failure(code);
  return Statement(this, statement);
}

Error Database::Failure(int code) const {
  const std::string shown = EscapeControl(path_);
  const std::string why =
      EscapeControl(handle_ ? sqlite3_errmsg(handle_.get()) : sqlite3_errstr(code), 300);
  switch (code & 0xff) {
    case SQLITE_INTERRUPT: {
      auto check = cancel_.Check();
      return check ? Cancelled() : check.error();
    }
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Unavailable(shown + " is locked by a program that writes to it.",
                         "Ask again in a moment; if it stays so, a process holds it open "
                         "exclusively.");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return DataCorrupt(shown + " is damaged (" + why + ").",
                         "sqlite3 FILE '.recover' saves what can be read.");
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
      if (wal_has_content_) {
        return Unavailable(shown +
                               " has its last changes in a '-wal' file, which cannot be read "
                               "in a folder that this user may not write (" +
                               why + ").",
                           "Copy the file together with its -wal to a folder that can be written, "
                           "and ask about the copy.");
      }
      return Unavailable(shown + " cannot be opened (" + why + ").",
                         "Check the rights of the file and of its folder.");
    case SQLITE_IOERR:
      return Unavailable(shown + " cannot be read (" + why + ").",
                         "It may have been cut or deleted while it was read; ask again.");
    case SQLITE_ERROR:
    case SQLITE_SCHEMA:
    case SQLITE_AUTH:
      return DataCorrupt(shown + " does not have the tables of a monitor's database (" + why +
                         ").");
    case SQLITE_TOOBIG:
    case SQLITE_NOMEM:
      return DataCorrupt(shown + " holds a value that is too large to read (" + why + ").");
    default:
      return Internal(shown + ": SQLite error " + std::to_string(code) + " (" + why + ").");
  }
}

}  // namespace mpnanny::runs
