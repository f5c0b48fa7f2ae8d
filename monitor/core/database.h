// The run database as the monitor writes it (schema/*.sql).
//
// Owns one SQLite connection and its prepared statements. Opened by the thread that constructs the
// monitor and then used by the writer thread alone; in the training process nobody else may open
// the file.
#ifndef MPNANNY_MONITOR_CORE_DATABASE_H_
#define MPNANNY_MONITOR_CORE_DATABASE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "monitor/core/flight_recorder.h"
#include "monitor/core/rows.h"

struct sqlite3;
struct sqlite3_stmt;

namespace mpnanny {

class RunDatabase {
 public:
  // Opens or creates the file (0600) in WAL mode and brings a new or an earlier one to the newest
  // schema. Unavailable: the place cannot be written or another process holds the file;
  // DataCorrupt: it is no database of ours or a newer one.
  static Result<RunDatabase> Open(const std::string& path);

  // Rows of a killed run that never reached the file, with flag 256. Steps and samples that are
  // there stay.
  Result<int64_t> Recover(const RingRemains& remains);

  // Writes the run's row; sets run_id().
  Result<void> StartRun(const RunRow& run);
  int64_t run_id() const { return run_id_; }
  int64_t layer_offset() const { return layer_offset_; }  // known once the layers are inserted

  // One transaction around `write`, which calls the functions below; rolled back if one of them
  // fails.
  Result<void> Transaction(const std::function<Result<void>()>& write);
  // All layers of the run, once: their ids follow those of every run in the file, which is decided
  // in this transaction, so that two runs never share one. Sets layer_offset().
  Result<void> Insert(const std::vector<LayerRow>& rows);
  // A layer that was met later. Its row's id follows those of all runs, whoever wrote since.
  Result<void> InsertLate(const LayerRow& row);
  Result<void> SetPosition(int64_t layer, int64_t position);
  Result<void> Insert(const StepRow& row);
  Result<void> Insert(const SampleRow& row);
  Result<void> Insert(const AlertRow& row);  // the first time
  Result<void> Update(const AlertRow& row);  // what can change of it
  Result<void> Insert(const EventRow& row);
  Result<void> Insert(const ShadowStepRow& row);
  Result<void> Insert(const ShadowFindingRow& row);  // the first time
  Result<void> Update(const ShadowFindingRow& row);  // what can change of it
  Result<void> Insert(const ShadowProfileRow& row);
  Result<void> Insert(const RankFigureRow& row);
  Result<void> Insert(const CollectiveRow& row);
  Result<void> SetNotes(const std::string& json);
  Result<void> SetPrecision(Precision precision);
  // The run that a first step > 0 continues: the newest one of the same name that has the step
  // before it.
  Result<void> LinkParent(int64_t first_step);
  Result<void> Heartbeat(double at);
  // The last failure was that another process holds the file's write lock.
  bool busy() const { return busy_; }

  // Writes into the run's row that it ended, and how.
  Result<void> End(double at, const std::string& end_reason);
  // `complete`: everything is in the file; the WAL is folded into it, which leaves one plain file.
  // Nothing may be called afterwards.
  void Close(bool complete);

 private:
  friend class Thinner;  // works with the same statements
  struct CloseConnection {
    void operator()(sqlite3* connection) const;
  };
  struct FinalizeStatement {
    void operator()(sqlite3_stmt* statement) const;
  };

  explicit RunDatabase(std::string path) : path_(std::move(path)) {}
  Error Failure(const char* what) const;
  Result<void> Execute(const char* sql);
  Result<sqlite3_stmt*> Prepared(const char* sql);  // reset and ready to bind; kept
  Result<void> Step(sqlite3_stmt* statement);
  Result<int64_t> Number(const char* sql);
  // 0: new; an error: another program's, or one that only a newer mpnanny understands.
  Result<int64_t> Version();
  Result<void> BringUpToDate(int64_t version);
  Result<void> Prepare();
  Result<void> InsertAs(std::optional<int64_t> id, const LayerRow& row);
  int64_t LayerId(int64_t layer) const;  // in the file
  std::string DetailOf(const AlertRow& row) const;

  std::string path_;
  std::unique_ptr<sqlite3, CloseConnection> connection_;
  std::map<const char*, std::unique_ptr<sqlite3_stmt, FinalizeStatement>>
      statements_;                          // by the literal's address
  std::map<int64_t, int64_t> alert_ids_;    // AlertRow::id -> alert_id
  std::map<int64_t, int64_t> finding_ids_;  // ShadowFindingRow::id -> finding_id
  int64_t run_id_ = 0;
  int64_t layer_offset_ = 0;
  uint32_t metrics_ = kAllMetrics;          // RunRow::metrics
  std::map<int64_t, int64_t> late_layers_;  // LayerRow::id -> layer_id, those of InsertLate()
  bool busy_ = false;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_DATABASE_H_
