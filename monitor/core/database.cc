#include "monitor/core/database.h"

#include <sqlite3.h>

#include <span>

#include "base/data_files.h"
#include "monitor/core/binder.h"
#include "monitor/core/catalogue.h"

namespace mpnanny {

std::span<const EmbeddedFile> EmbeddedSchema();  // generated from monitor/schema/*.sql

namespace {

constexpr int kBusyMs = 5000;       // at the start: another run may be making or closing the file
constexpr int kBatchBusyMs = 1000;  // a batch is tried again, but the end of the run must be heard
constexpr int64_t kApplicationId = 0x4d504e59;
// PRAGMA user_version: the oldest version whose readers understand the file (see 0002.sql).
constexpr int64_t kReaderVersion = 1;

// Of "monitor/schema/0002.sql".
int64_t VersionOf(std::string_view path) {
  int64_t version = 0;
  for (const char c : path.substr(path.rfind('/') + 1)) {
    if (c < '0' || c > '9') break;
    version = 10 * version + (c - '0');
  }
  return version;
}

}  // namespace

void RunDatabase::CloseConnection::operator()(sqlite3* connection) const {
  sqlite3_close_v2(connection);
}
void RunDatabase::FinalizeStatement::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Error RunDatabase::Failure(const char* what) const {
  const int code = connection_ ? sqlite3_errcode(connection_.get()) : SQLITE_NOMEM;
  const std::string why = connection_ ? sqlite3_errmsg(connection_.get()) : "out of memory";
  const std::string text = path_ + ": " + what + ": " + why + ".";
  if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT) {
    return DataCorrupt(text, "Choose another file with db=, or move this one away.");
  }
  return Unavailable(text);
}

Result<void> RunDatabase::Execute(const char* sql) {
  if (sqlite3_exec(connection_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK)
    return Failure("cannot be written");
  return {};
}

Result<sqlite3_stmt*> RunDatabase::Prepared(const char* sql) {
  auto& statement = statements_[sql];
  if (!statement) {
    sqlite3_stmt* fresh = nullptr;
    if (sqlite3_prepare_v3(connection_.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &fresh,
                           nullptr) != SQLITE_OK) {
      return Failure("a statement does not fit the file");
    }
    statement.reset(fresh);
  }
  sqlite3_reset(statement.get());
  sqlite3_clear_bindings(statement.get());
  return statement.get();
}

Result<void> RunDatabase::Step(sqlite3_stmt* statement) {
  const int code = sqlite3_step(statement);
  if (code != SQLITE_DONE && code != SQLITE_ROW) {
    const Error error = Failure("cannot be written");
    sqlite3_reset(statement);
    return error;
  }
  sqlite3_reset(statement);
  return {};
}

Result<int64_t> RunDatabase::Number(const char* sql) {
  MPN_TRY_ASSIGN(sqlite3_stmt * statement, Prepared(sql));
  if (sqlite3_step(statement) != SQLITE_ROW) return Failure("cannot be read");
  const int64_t number = sqlite3_column_int64(statement, 0);
  sqlite3_reset(statement);
  return number;
}

Result<RunDatabase> RunDatabase::Open(const std::string& path) {
  MPN_TRY(CreatePrivateFile(path));
  RunDatabase database(path);
  sqlite3* connection = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &connection,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  database.connection_.reset(connection);
  if (code != SQLITE_OK) return database.Failure("cannot be opened");
  sqlite3_busy_timeout(connection, kBusyMs);
  MPN_TRY(database.Prepare());
  return database;
}

Result<int64_t> RunDatabase::Version() {
  MPN_TRY_ASSIGN(int64_t application, Number("PRAGMA application_id"));
  MPN_TRY_ASSIGN(int64_t reader, Number("PRAGMA user_version"));
  MPN_TRY_ASSIGN(int64_t tables, Number("SELECT count(*) FROM sqlite_schema"));
  if (tables > 0 && application != kApplicationId) {
    return DataCorrupt(path_ + ": a database of another program.", "Choose another file with db=.");
  }
  if (reader > kReaderVersion) {
    return DataCorrupt(
        path_ + ": written by a newer mpnanny (schema " + std::to_string(reader) + ").",
        "Choose another file with db=, or update mpnanny.");
  }
  if (tables == 0) return 0;
  return Number(  // version 1 does not name itself
      "SELECT coalesce(max(CAST(value AS INTEGER)), 1) FROM meaning WHERE what = "
      "'schema.version'");
}

Result<void> RunDatabase::BringUpToDate(int64_t version) {
  for (const EmbeddedFile& file : EmbeddedSchema()) {  // in the order of their names
    if (VersionOf(file.path) <= version) continue;
    if (auto made = Execute(std::string(file.text).c_str()); !made) return made;
  }
  for (const Meaning& row : MetricCatalogue()) {
    MPN_TRY_ASSIGN(auto insert,
                   Prepared("INSERT OR REPLACE INTO meaning (what, value, text) VALUES (?, ?, ?)"));
    Binder(insert)
        .Add(std::string(row.what))
        .Add(std::string(row.value))
        .Add(std::string(row.text));
    if (auto done = Step(insert); !done) return done;
  }
  return {};
}

Result<void> RunDatabase::Prepare() {
  // Only in one transaction do the figures fit together: another run may be making the file now.
  if (auto begun = Execute("BEGIN"); !begun) return begun;
  const Result<int64_t> checked = Version();  // before anything of a foreign file is changed
  sqlite3_exec(connection_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
  if (!checked) return checked.error();
  statements_.clear();  // the schema and the journal mode change under them
  // SQLite maps its index of the WAL. Should this fail, it makes the file itself.
  (void)CreatePrivateFile(path_ + "-shm", /*in_place=*/true);
  // NORMAL in WAL mode: a crash of the process loses nothing, one of the machine at most the last
  // batches, and the file stays sound. What thinning frees need not be overwritten, and a WAL that
  // a long reader let grow becomes short again. The switch to WAL does not wait for a lock by
  // itself: another run may be switching, too.
  constexpr int kPauseMs = 10;
  for (int waited = 0;; waited += kPauseMs) {
    const auto set = Execute(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA secure_delete = OFF; "
        "PRAGMA journal_size_limit = 8388608");
    if (set) break;
    if (sqlite3_errcode(connection_.get()) != SQLITE_BUSY || waited >= kBusyMs) return set;
    sqlite3_sleep(kPauseMs);
  }
  return Transaction([&]() -> Result<void> {
    MPN_TRY_ASSIGN(const int64_t version, Version());
    return BringUpToDate(version);
  });
}

Result<void> RunDatabase::Transaction(const std::function<Result<void>()>& write) {
  const Result<void> begun = Execute("BEGIN IMMEDIATE");
  busy_ = !begun && sqlite3_errcode(connection_.get()) == SQLITE_BUSY;
  if (!begun) return begun;
  Result<void> written = write();
  if (written) written = Execute("COMMIT");
  if (!written) sqlite3_exec(connection_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
  return written;
}

Result<void> RunDatabase::StartRun(const RunRow& run) {
  return Transaction([&]() -> Result<void> {
    MPN_TRY_ASSIGN(
        auto insert,
        Prepared("INSERT INTO run (name, rank, world_size, started_at, heartbeat_at, precision, "
                 "trace_interval, environment) "
                 "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"));
    Binder(insert)
        .Add(run.name)
        .Add(run.rank)
        .Add(run.world_size)
        .Add(run.started_at)
        .Add(run.started_at)
        .OrNull(run.precision)
        .Add(run.trace_interval)
        .OrNull(run.environment);
    if (auto done = Step(insert); !done) return done;
    run_id_ = sqlite3_last_insert_rowid(connection_.get());
    sqlite3_busy_timeout(connection_.get(), kBatchBusyMs);
    metrics_ = run.metrics;
    return {};
  });
}

Result<void> RunDatabase::Insert(const std::vector<LayerRow>& rows) {
  MPN_TRY_ASSIGN(int64_t offset, Number("SELECT coalesce(max(layer_id), 0) FROM layer"));
  layer_offset_ = offset;
  for (const LayerRow& row : rows) {
    if (auto done = InsertAs(row.id + layer_offset_, row); !done) return done;
  }
  return {};
}

Result<void> RunDatabase::InsertLate(const LayerRow& row) {
  if (auto done = InsertAs(std::nullopt, row); !done) return done;
  late_layers_[row.id] = sqlite3_last_insert_rowid(connection_.get());
  return {};
}

int64_t RunDatabase::LayerId(int64_t layer) const {
  const auto late = late_layers_.find(layer);
  return late != late_layers_.end() ? late->second : layer + layer_offset_;
}

Result<void> RunDatabase::InsertAs(std::optional<int64_t> id, const LayerRow& row) {
  MPN_TRY_ASSIGN(
      auto insert,
      Prepared("INSERT INTO layer (layer_id, run_id, name, type, position, source, numel) VALUES "
               "(?, ?, ?, ?, ?, ?, ?)"));
  Binder(insert)
      .Add(id)  // NULL: SQLite's next
      .Add(run_id_)
      .Add(row.name)
      .OrNull(row.type)
      .Add(row.position)
      .OrNull(row.source)
      .Add(row.numel);
  return Step(insert);
}

Result<void> RunDatabase::SetPosition(int64_t layer, int64_t position) {
  MPN_TRY_ASSIGN(auto update, Prepared("UPDATE layer SET position = ? WHERE layer_id = ?"));
  Binder(update).Add(position).Add(layer + layer_offset_);
  return Step(update);
}

Result<void> RunDatabase::Insert(const StepRow& row) {
  MPN_TRY_ASSIGN(auto insert, Prepared("INSERT OR IGNORE INTO step (run_id, step, at, duration, "
                                       "loss, lr, loss_scale, grad_norm, peak_memory, flags) "
                                       "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  Binder(insert)
      .Add(run_id_)
      .Add(row.step)
      .Add(row.at)
      .Add(row.duration)
      .Add(row.loss)
      .Add(row.lr)
      .Add(row.loss_scale)
      .Add(row.grad_norm)
      .Add(row.peak_memory)
      .Add(static_cast<int64_t>(row.flags));
  return Step(insert);
}

Result<void> RunDatabase::Insert(const SampleRow& row) {
  MPN_TRY_ASSIGN(
      auto insert,
      Prepared(
          "INSERT OR IGNORE INTO tensor_stats (run_id, step, layer_id, kind, slot, dtype, numel, "
          "nan, posinf, neginf, zeros, min, max, absmax, absmin, mean, std, rms, l2, below_fp16, "
          "subnormal_fp16, above_fp16, frozen, exponents) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
          "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  const TensorStats& stats = row.stats;
  Binder bind(insert);
  bind.Add(run_id_)
      .Add(row.step)
      .Add(row.layer + layer_offset_)
      .Add(static_cast<int64_t>(row.kind))
      .Add(static_cast<int64_t>(row.slot))
      .Add(static_cast<int64_t>(row.dtype))
      .Add(stats.numel);
  int metric = 0;  // in the order of kMetrics
  const auto kept = [&] { return (metrics_ >> metric++ & 1) != 0; };
  for (int64_t count : {stats.nan, stats.posinf, stats.neginf, stats.zeros})
    kept() ? bind.Add(count) : bind.Null();
  const bool finite = stats.finite > 0;
  const bool zero = stats.absmin == 0;
  for (double figure : {stats.min, stats.max, stats.absmax})
    kept() && finite ? bind.Add(figure) : bind.Null();
  kept() && finite && !zero ? bind.Add(stats.absmin) : bind.Null();
  for (double figure : {stats.mean, stats.std(), stats.rms(), stats.l2()})
    kept() && finite ? bind.Add(figure) : bind.Null();
  for (int64_t count : {stats.below_fp16, stats.subnormal_fp16, stats.above_fp16})
    kept() ? bind.Add(count) : bind.Null();
  kept() ? bind.Add(row.frozen) : bind.Null();
  kept() ? bind.Blob(row.exponents) : bind.Null();
  return Step(insert);
}

Result<void> RunDatabase::Insert(const EventRow& row) {
  MPN_TRY_ASSIGN(
      auto insert,
      Prepared("INSERT INTO event (run_id, step, at, type, detail) VALUES (?, ?, ?, ?, ?)"));
  Binder(insert).Add(run_id_).Add(row.step).Add(row.at).Add(row.type).OrNull(row.detail);
  return Step(insert);
}

Result<void> RunDatabase::SetNotes(const std::string& json) {
  MPN_TRY_ASSIGN(auto update, Prepared("UPDATE run SET notes = ? WHERE run_id = ?"));
  Binder(update).Add(json).Add(run_id_);
  return Step(update);
}

Result<void> RunDatabase::SetPrecision(Precision precision) {
  MPN_TRY_ASSIGN(auto update, Prepared("UPDATE run SET precision = ? WHERE run_id = ?"));
  Binder(update).Add(NameOf(precision)).Add(run_id_);
  return Step(update);
}

Result<void> RunDatabase::LinkParent(int64_t first_step) {
  MPN_TRY_ASSIGN(
      auto update,
      Prepared(
          "UPDATE run SET parent = (SELECT max(r.run_id) FROM run r WHERE r.run_id < ?1 AND r.name "
          "= run.name AND EXISTS (SELECT 1 FROM step s WHERE s.run_id = r.run_id AND s.step = ?2 - "
          "1)) WHERE run_id = ?1"));
  Binder(update).Add(run_id_).Add(first_step);
  return Step(update);
}

Result<void> RunDatabase::Heartbeat(double at) {
  MPN_TRY_ASSIGN(auto update, Prepared("UPDATE run SET heartbeat_at = ? WHERE run_id = ?"));
  Binder(update).Add(at).Add(run_id_);
  return Step(update);
}

Result<void> RunDatabase::End(double at, const std::string& end_reason) {
  return Transaction([&]() -> Result<void> {
    MPN_TRY_ASSIGN(
        auto update,
        Prepared("UPDATE run SET ended_at = ?, heartbeat_at = ?, end_reason = ? WHERE run_id = ?"));
    Binder(update).Add(at).Add(at).Add(end_reason).Add(run_id_);
    return Step(update);
  });
}

void RunDatabase::Close(bool complete) {
  statements_.clear();
  if (complete) {
    // Where a reader still has the file open it stays in WAL mode; that is complete as well.
    sqlite3_busy_timeout(connection_.get(), 200);
    sqlite3_wal_checkpoint_v2(connection_.get(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr,
                              nullptr);
    sqlite3_exec(connection_.get(), "PRAGMA journal_mode = DELETE", nullptr, nullptr, nullptr);
  }
  connection_.reset();
}

}  // namespace mpnanny
