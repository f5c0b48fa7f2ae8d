#include "engines/runs/database.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/os_file_system.h"
#include "base/run_handle.h"
#include "base/text.h"
#include "engines/runs/import/earlier_monitor.h"
#include "engines/runs/reading_vfs.h"

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

// A change within so much time after another one may not show in a file's times.
constexpr int64_t kStampNanoseconds = 2'000'000'000;

// Of a database that nobody writes, and of its WAL; "" if one was changed just now.
std::string StampOfFiles(const std::string& path) {
  if (OnNetworkFileSystem(path)) return "";
  const int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  std::string text;
  for (const char* end : {"", "-wal"}) {
    const auto stamp = StampOf(path + end);
    if (!stamp && *end == '\0') return "";
    if (stamp && stamp->changed > now - kStampNanoseconds) return "";
    if (!stamp) continue;
    for (const uint64_t part : {stamp->device, stamp->inode, static_cast<uint64_t>(stamp->bytes),
                                static_cast<uint64_t>(stamp->changed)}) {
      text += std::to_string(part) + " ";
    }
    text += end;
  }
  return text;
}

// What one SELECT over the monitor's tables needs, and nothing else: the schema of a file from
// elsewhere may hold anything.
int Authorize(void*, int action, const char*, const char*, const char*, const char*) {
  return action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_RECURSIVE ||
                 action == SQLITE_FUNCTION
             ? SQLITE_OK
             : SQLITE_DENY;
}

Error LacksTables(const std::string& shown, const std::string& why) {
  return DataCorrupt(shown + " does not have the tables of a monitor's database (" + why + ").",
                     "It was changed after it was written, or is damaged: take another copy.");
}

}  // namespace

int Database::StopRequested(void* database) {
  const auto* const self = static_cast<const Database*>(database);
  return self->cancel_.stop_requested() || self->time_is_up() ? 1 : 0;
}

bool LooksLikeDatabase(const std::string& path) {
  std::error_code ec;  // a pipe would be waited for
  const fs::path whole(path);
  if (!fs::is_regular_file(whole, ec)) return false;
  const auto folder = ResolvedFolder::Open(whole.parent_path().generic_string());
  return folder &&
         FirstBytes(folder->PathOf(whole.filename().generic_string()), kMagic.size()) == kMagic;
}

Statement& Statement::Bind(int index, int64_t value) {
  if (of_server_) return of_server_->Bind(index, value), *this;
  sqlite3_bind_int64(statement_.get(), index, value);
  return *this;
}

Statement& Statement::Bind(int index, double value) {
  if (of_server_) return of_server_->Bind(index, value), *this;
  sqlite3_bind_double(statement_.get(), index, value);
  return *this;
}

Statement& Statement::Bind(int index, std::string_view value) {
  if (of_server_) return of_server_->Bind(index, std::string(value)), *this;
  sqlite3_bind_text64(statement_.get(), index, value.data(), value.size(), SQLITE_TRANSIENT,
                      SQLITE_UTF8);
  return *this;
}

Result<bool> Statement::Next() {
  if (of_server_) {
    if (Database::StopRequested(const_cast<Database*>(database_))) {
      return database_->Failure(SQLITE_INTERRUPT);
    }
    return of_server_->Next();
  }
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_->Failure(code);
}

std::optional<std::string> Statement::Text(int column) const {
  if (of_server_) return of_server_->Text(column);
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_TEXT) return std::nullopt;
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  const int bytes = sqlite3_column_bytes(statement_.get(), column);
  return text ? std::string(text, static_cast<size_t>(bytes)) : std::string();
}

std::optional<std::string> Statement::Blob(int column) const {
  if (of_server_) return of_server_->Blob(column);
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_BLOB) return std::nullopt;
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return bytes ? std::string(bytes, static_cast<size_t>(size)) : std::string();
}

Result<std::unique_ptr<Database>> Database::Open(const std::string& path,
                                                 const CancelToken& cancel) {
  MPN_TRY_ASSIGN(auto database, OpenAny(path, cancel));
  MPN_TRY(database->CheckIdentity());
  sqlite3_set_authorizer(database->handle_.get(), Authorize, nullptr);
  return database;
}

Result<std::unique_ptr<Database>> Database::OpenOther(const std::string& path,
                                                      const CancelToken& cancel) {
  MPN_TRY_ASSIGN(auto database, OpenAny(path, cancel));
  sqlite3_set_authorizer(database->handle_.get(), Authorize, nullptr);
  return database;
}

Result<std::unique_ptr<Database>> Database::OpenAny(const std::string& path,
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
  if (!fs::is_regular_file(status)) {
    return InvalidInput(shown + " is not a regular file.",
                        "Name the monitor's database (metrics.db) or a folder above it.");
  }

  std::unique_ptr<Database> database(new Database(path, cancel));
  const fs::path whole(path);
  auto folder = ResolvedFolder::Open(whole.parent_path().generic_string());
  if (!folder) return folder.error();
  database->folder_.emplace(*std::move(folder));
  const std::string file = database->folder_->PathOf(whole.filename().generic_string());
  const std::string header = FirstBytes(file, kHeaderBytes);
  if (header.empty() && fs::file_size(file, ec) != 0) {
    return InvalidInput(shown + " cannot be read by this user.",
                        "The monitor's files are readable for their owner alone (0600).");
  }
  if (header.empty()) {
    return InvalidInput(shown + " is empty.", "The monitor may not have written to it yet.");
  }
  if (!header.starts_with(kMagic)) {
    return InvalidInput(shown + " is not a SQLite database.",
                        "A run is named by the monitor's database (metrics.db), a text log goes "
                        "to diagnose_run.");
  }
  if (header.size() < kHeaderBytes)
    return DataCorrupt(shown + " is cut off after its first bytes.",
                       "Copy it again, whole and with its -wal file.");

  const bool wal_mode = header[18] == 2;
  const std::string wal = file + "-wal";
  const bool wal_exists = fs::exists(wal, ec);
  const uintmax_t wal_bytes = wal_exists ? fs::file_size(wal, ec) : 0;
  database->wal_has_content_ = wal_exists && !ec && wal_bytes > 0;
  database->wal_missing_ = wal_mode && !wal_exists;
  database->plain_ = !wal_mode;
  const bool index_exists = fs::exists(file + "-shm", ec);
  // Without a WAL there is nothing to merge and nobody writes, and SQLite would want to make one. A
  // plain file across a network is a published copy, which is replaced and never changed; locks may
  // hang there.
  Access access = Access::kShared;
  if (!wal_mode && OnNetworkFileSystem(path)) access = Access::kPublished;
  if (wal_mode && !wal_exists) access = Access::kUnwritten;
  // Before the snapshot is taken: what is written between the two is told by the next stamp.
  if (!wal_mode || !wal_exists || !index_exists) database->stamp_ = StampOfFiles(file);
  MPN_TRY(database->Connect(file, access));
  return database;
}

std::unique_ptr<Database> Database::Adopt(sqlite3* handle, const std::string& path,
                                          const CancelToken& cancel) {
  std::unique_ptr<Database> database(new Database(path, cancel));
  database->handle_.reset(handle);
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_exec(handle, "PRAGMA query_only=1", nullptr, nullptr, nullptr);
  sqlite3_progress_handler(handle, kOpsBetweenChecks, StopRequested, database.get());
  sqlite3_set_authorizer(handle, Authorize, nullptr);
  return database;
}

Result<void> Database::PresentEarlier() {
  sqlite3* const handle = handle_.get();
  // Temporary tables lie on disk and not in memory, which is chosen outside of a transaction.
  sqlite3_exec(handle, "COMMIT; PRAGMA temp_store=1; PRAGMA query_only=0; BEGIN", nullptr, nullptr,
               nullptr);
  auto notes = imports::PresentEarlierMonitor(
      handle, std::filesystem::path(path_).filename().generic_string());
  if (!notes) {
    MPN_TRY(cancel_.Check());
    return DataCorrupt(
        EscapeControl(path_) + " was written by the earlier Python monitor, but " +
            notes.error().message,
        "Record the run with today's monitor, or give diagnose_run its console log.");
  }
  sqlite3_exec(handle, "PRAGMA query_only=1", nullptr, nullptr, nullptr);
  notes_ = *std::move(notes);
  return {};
}

Result<void> Database::Connect(const std::string& file, Access access) {
  // As a URI, so that "immutable" can be said; '%', '?' and '#' of the path are encoded by that.
  std::string uri = "file:";
  for (const char c : file) uri += c == '/' ? std::string(1, c) : PercentEncode({&c, 1});
  uri += access == Access::kShared      ? "?mode=ro&readonly_shm=1"
         : access == Access::kUnwritten ? "?immutable=1&unwritten=1"
                                        : "?immutable=1";
  sqlite3* opened = nullptr;
  const int code =
      sqlite3_open_v2(uri.c_str(), &opened,
                      SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, ReadingVfs());
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
  sqlite3_progress_handler(opened, kOpsBetweenChecks, StopRequested, this);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  // mmap_size 0: a file that another process cuts must be an error, not SIGBUS.
  const std::string setup =
      "PRAGMA query_only=1; PRAGMA mmap_size=0; PRAGMA cell_size_check=1;"
      "PRAGMA temp_store=2; PRAGMA cache_size=" +
      std::to_string(kCachePages);
  if (const int rc = sqlite3_exec(opened, setup.c_str(), nullptr, nullptr, nullptr);
      rc != SQLITE_OK) {
    return Failure(rc);
  }
  return BeginSnapshot();
}

// All answers of a call come from one state of the file.
Result<void> Database::BeginSnapshot() {
  const auto until = CancelToken::Clock::now() + std::chrono::milliseconds(kBusyMilliseconds);
  while (true) {
    const int code = sqlite3_exec(handle_.get(), "BEGIN; SELECT count(*) FROM sqlite_schema",
                                  nullptr, nullptr, nullptr);
    if (code == SQLITE_OK) return {};
    // A writer that has just opened the file has not filled the WAL's index yet, which a reader
    // does not do in its place; or it began while the file was read as one that nobody writes.
    const bool passing = code == SQLITE_READONLY_RECOVERY || code == SQLITE_READONLY_CANTINIT ||
                         code == SQLITE_BUSY_RECOVERY;
    if (!passing || CancelToken::Clock::now() >= until || cancel_.stop_requested())
      return Failure(code);
    sqlite3_exec(handle_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

Result<void> Database::CheckIdentity() {
  const auto number = [&](std::string_view sql) -> Result<int64_t> {
    MPN_TRY_ASSIGN(auto statement, Prepare(sql));
    MPN_TRY_ASSIGN(auto row, statement.Next());
    return row ? statement.IntOr(0, 0) : 0;
  };
  const std::string shown = EscapeControl(path_);
  MPN_TRY_ASSIGN(auto application, number("PRAGMA application_id"));
  MPN_TRY_ASSIGN(auto version, number("PRAGMA user_version"));
  MPN_TRY_ASSIGN(auto legacy, number("SELECT count(*) FROM sqlite_schema WHERE type='table' AND "
                                     "name IN ('layer_stats','alerts','loss_scale_history')"));
  MPN_TRY_ASSIGN(auto tables, number("SELECT count(*) FROM sqlite_schema"));

  if (application != kApplicationId) {
    if (legacy >= 2) return PresentEarlier();
    if (tables == 0 && wal_missing_) {
      return DataCorrupt(shown +
                             " holds no tables; its changes were in a '-wal' file that is "
                             "not here.",
                         "Copy the -wal file along with it, or copy it after the run has ended.");
    }
    return InvalidInput(shown + " is a SQLite database of another program, not a monitor's.",
                        "list_runs with a folder shows the monitor's databases below it.");
  }
  if (version >= kOldestUserVersion && version <= kNewestUserVersion) {
    MPN_TRY_ASSIGN(
        auto ours,
        number("SELECT count(*) FROM sqlite_schema WHERE type='table' AND "
               "name IN ('run','layer','step','tensor_stats','alert','event','meaning')"));
    if (ours != 7) return LacksTables(shown, std::to_string(7 - ours) + " of 7 are missing");
  } else {
    return Unavailable(shown + " has schema version " + std::to_string(version) +
                           "; this mpnanny reads versions " + std::to_string(kOldestUserVersion) +
                           " to " + std::to_string(kNewestUserVersion) + ".",
                       version > kNewestUserVersion
                           ? "A newer monitor wrote it: update mpnanny."
                           : "The monitor may not have finished creating it.");
  }
  return {};
}

std::unique_ptr<Database> Database::OfTraining(std::unique_ptr<team::Snapshot> training,
                                               const std::string& path, const CancelToken& cancel) {
  std::unique_ptr<Database> database(new Database(path, cancel));
  database->training_ = std::move(training);
  return database;
}

void Database::LimitTime(CancelToken::Clock::duration limit) {
  until_ = CancelToken::Clock::now() + limit;
  if (training_) {
    training_->LimitTime(std::chrono::duration_cast<std::chrono::milliseconds>(limit));
  }
}

Result<Statement> Database::Prepare(std::string_view sql) const {
  if (training_) {
    auto select = training_->Prepare(sql);
    if (!select) return select.error();
    return Statement(this, *std::move(select));
  }
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                                      &statement, nullptr);
  if (code != SQLITE_OK) return Failure(code);
  return Statement(this, statement);
}

bool Database::HasColumn(std::string_view table, std::string_view column) const {
  if (training_) return training_->HasColumn(table, column);
  sqlite3_stmt* statement = nullptr;
  const std::string sql =
      "SELECT " + std::string(column) + " FROM " + std::string(table) + " LIMIT 0";
  const int code = sqlite3_prepare_v2(handle_.get(), sql.c_str(), -1, &statement, nullptr);
  sqlite3_finalize(statement);
  return code == SQLITE_OK;
}

std::string Database::ColumnsOrNull(std::string_view table,
                                    std::initializer_list<std::string_view> columns) const {
  std::string list;
  for (const std::string_view column : columns) {
    list += list.empty() ? "" : ", ";
    list += HasColumn(table, column) ? column : "NULL";
  }
  return list;
}

Error Database::Failure(int code) const {
  const std::string shown = EscapeControl(path_);
  const std::string why =
      EscapeControl(handle_ ? sqlite3_errmsg(handle_.get()) : sqlite3_errstr(code), 300);
  switch (code & 0xff) {
    case SQLITE_INTERRUPT: {
      MPN_TRY(cancel_.Check());
      return DeadlineExceeded("The query's time limit is over.",
                              "Ask for fewer steps or fewer layers.");
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
                               " has its last changes in a '-wal' file, which this user cannot "
                               "read beside it (" +
                               why + ").",
                           "Make the files with -wal and -shm readable, or copy them together to "
                           "a folder of your own and ask about the copy.");
      }
      return Unavailable(shown + " cannot be opened (" + why + ").",
                         "Check the rights of the file and of its folder.");
    case SQLITE_IOERR:
      return Unavailable(shown + " cannot be read (" + why + ").",
                         "It may have been cut or deleted while it was read; ask again.");
    case SQLITE_ERROR:
    case SQLITE_SCHEMA:
    case SQLITE_AUTH:
      return LacksTables(shown, why);
    case SQLITE_TOOBIG:
    case SQLITE_NOMEM:
      return DataCorrupt(shown + " holds a value that is too large to read (" + why + ").",
                         "sqlite3 FILE '.recover' saves what can be read.");
    default:
      return Internal(shown + ": SQLite error " + std::to_string(code) + " (" + why + ").");
  }
}

}  // namespace mpnanny::runs
