#include "engines/runs/import/earlier_monitor.h"

#include <set>

#include "base/text.h"
#include "engines/runs/import/statement.h"

namespace mpnanny::imports {
namespace {

constexpr int64_t kMaxLayers = 200'000;
constexpr int64_t kMaxSampledSteps = 5'000'000;

// The columns of a table: that monitor and its fork wrote them in different orders, and some files
// lack some.
class Columns {
 public:
  Columns(sqlite3* database, const std::string& table) {
    sqlite3_stmt* rows = nullptr;
    const std::string sql = "SELECT name FROM pragma_table_info('" + table + "')";
    sqlite3_prepare_v2(database, sql.c_str(), -1, &rows, nullptr);
    while (rows && sqlite3_step(rows) == SQLITE_ROW) {
      const auto* name = reinterpret_cast<const char*>(sqlite3_column_text(rows, 0));
      if (name) names_.insert(name);
    }
    sqlite3_finalize(rows);
  }
  bool Has(const std::string& name) const { return names_.contains(name); }
  bool any() const { return !names_.empty(); }
  // "s.max_val", or NULL where the file has no such column.
  std::string Of(const std::string& name) const { return Has(name) ? "s." + name : "NULL"; }

 private:
  std::set<std::string> names_;
};

bool HasIndex(sqlite3* database, const std::string& column) {
  Writer row(database,
             "SELECT 1 FROM pragma_index_list('layer_stats') l JOIN pragma_index_info(l.name) i "
             "WHERE i.seqno=0 AND i.name=?1");
  row << std::string_view(column);
  return row.NextRow();
}

// The distinct values of a column: along its index, one seek a value, or else by one scan.
std::string Distinct(sqlite3* database, const std::string& column) {
  if (!HasIndex(database, column)) {
    return "SELECT DISTINCT " + column + " AS v FROM main.layer_stats WHERE " + column +
           " IS NOT NULL";
  }
  return "WITH RECURSIVE d(v) AS (SELECT min(" + column +
         ") FROM main.layer_stats UNION ALL"
         " SELECT (SELECT min(" +
         column + ") FROM main.layer_stats WHERE " + column +
         ">d.v) FROM d WHERE d.v IS NOT NULL) SELECT v FROM d WHERE v IS NOT NULL";
}

// True if a step holds several rows of one layer and phase: asked of a few steps only.
bool HasSeveralCalls(sqlite3* database) {
  Writer row(database,
             "SELECT 1 FROM (SELECT step FROM temp.sampled_step ORDER BY step LIMIT 3) f"
             " JOIN main.layer_stats s ON s.step=f.step"
             " GROUP BY s.step, s.layer_name, s.phase HAVING count(*)>1 LIMIT 1");
  return row.NextRow();
}

constexpr char kKind[] =
    "CASE s.phase WHEN 'backward' THEN 2 WHEN 'optimizer_grad' THEN 3"
    " WHEN 'optimizer_param' THEN 4 WHEN 'optimizer_post_param' THEN 4 ELSE 1 END";

std::string StatsView(const Columns& columns, bool several_calls) {
  const auto of = [&](const char* name) { return columns.Of(name); };
  // Which call within the step: nothing but the order of the rows tells it.
  const std::string slot =
      several_calls ? "(SELECT count(*) FROM main.layer_stats e WHERE e.step=s.step AND"
                      " +e.layer_name=s.layer_name AND e.phase=s.phase AND e.rowid<s.rowid)"
                    : "CASE s.phase WHEN 'optimizer_post_param' THEN 1 ELSE 0 END";
  return "CREATE TEMP VIEW tensor_stats AS SELECT 1 AS run_id, s.step AS step,"
         " (SELECT l.layer_id FROM temp.layer l WHERE l.name=s.layer_name) AS layer_id, " +
         std::string(kKind) + " AS kind, " + slot + " AS slot, CASE " + of("dtype") +
         " WHEN 'torch.float32' THEN 1 WHEN 'torch.float16' THEN 2 WHEN 'torch.bfloat16' THEN 3"
         " WHEN 'torch.float64' THEN 4 ELSE 0 END AS dtype, NULL AS numel, " +
         of("nan_count") + " AS nan, " + of("inf_count") +
         " AS posinf, 0 AS neginf, 0 AS zeros, NULL AS min, NULL AS max, " + of("max_val") +
         " AS absmax, nullif(" + of("min_nonzero") + ", 0.0) AS absmin, " + of("mean_val") +
         " AS mean, " + of("std_val") +
         " AS std, NULL AS rms, NULL AS l2, NULL AS below_fp16, NULL AS subnormal_fp16,"
         " NULL AS above_fp16, NULL AS frozen, NULL AS exponents FROM main.layer_stats s";
}

std::string StepView(const Columns& scale) {
  const std::string sampled =
      "SELECT 1 AS run_id, m.step AS step, NULL AS at, NULL AS duration, NULL AS loss, NULL AS lr,"
      " NULL AS loss_scale, NULL AS grad_norm, NULL AS peak_memory, 64 AS flags"
      " FROM temp.sampled_step m";
  if (!scale.Has("step") || !scale.Has("scale")) return "CREATE TEMP VIEW step AS " + sampled;
  // `overflow` is what it writes where the scale is lower than at the step before: the scaler
  // found a gradient that was not finite and skipped the step.
  return "CREATE TEMP VIEW step AS SELECT 1 AS run_id, s.step AS step, " + scale.Of("ts") +
         " AS at, NULL AS duration, NULL AS loss, NULL AS lr, s.scale AS loss_scale,"
         " NULL AS grad_norm, NULL AS peak_memory,"
         " CASE WHEN " +
         scale.Of("overflow") +
         " THEN 12 ELSE 0 END | CASE WHEN EXISTS (SELECT 1 FROM temp.sampled_step m"
         " WHERE m.step=s.step) THEN 64 ELSE 0 END AS flags FROM main.loss_scale_history s"
         " UNION ALL " +
         sampled + " WHERE m.step NOT IN (SELECT step FROM main.loss_scale_history)";
}

std::string AlertView(const Columns& alerts) {
  const auto of = [&](const char* name) { return alerts.Of(name); };
  return "CREATE TEMP VIEW alert AS SELECT " + std::string(alerts.Has("id") ? "s.id" : "s.rowid") +
         " AS alert_id, 1 AS run_id, s.step AS step,"
         " CASE WHEN " +
         of("phase") + " LIKE 'optimizer%' THEN 'optimizer' ELSE " + of("phase") +
         " END AS phase, (SELECT l.layer_id FROM temp.layer l WHERE l.name=" + of("layer_name") +
         ") AS layer_id, CASE " + of("phase") +
         " WHEN 'forward' THEN 1 WHEN 'backward' THEN 2 WHEN 'optimizer_grad' THEN 3 END AS kind,"
         " s.alert_type AS type, s.severity AS severity, " +
         of("value") +
         " AS value, NULL AS threshold, NULL AS producer, 1 AS repeats, NULL AS last_step,"
         " coalesce(" +
         of("message") + ", '') AS message FROM main.alerts s";
}

std::string Tables(sqlite3* database, const Columns& stats) {
  const std::string type =
      stats.Has("layer_type")
          ? "(SELECT CASE WHEN s.layer_type IN ('param','grad') THEN 'parameter'"
            " ELSE s.layer_type END FROM main.layer_stats s WHERE s.rowid=position)"
          : "NULL";
  return "CREATE TEMP TABLE sampled_step (step INTEGER PRIMARY KEY);"
         "INSERT OR IGNORE INTO temp.sampled_step SELECT v FROM (" +
         Distinct(database, "step") + ") WHERE typeof(v)='integer' LIMIT " +
         std::to_string(kMaxSampledSteps) +
         ";"
         "CREATE TEMP TABLE layer (layer_id INTEGER PRIMARY KEY, run_id INTEGER, name TEXT UNIQUE,"
         " type TEXT, position INTEGER, source TEXT, numel INTEGER);"
         "INSERT OR IGNORE INTO temp.layer (run_id, name, position)"
         " SELECT 1, v, (SELECT s.rowid FROM main.layer_stats s WHERE s.layer_name=v ORDER BY "
         "s.rowid"
         " LIMIT 1) FROM (" +
         Distinct(database, "layer_name") + ") WHERE typeof(v)='text' ORDER BY 3 LIMIT " +
         std::to_string(kMaxLayers) +
         ";"
         "UPDATE temp.layer SET position=layer_id, type=" +
         type +
         ";"
         "CREATE TEMP TABLE event (run_id INTEGER, step INTEGER, at REAL, type TEXT, detail TEXT);"
         "CREATE TEMP TABLE meaning (what TEXT, value TEXT, text TEXT);"
         "INSERT INTO temp.meaning VALUES ('tensor_stats.dtype','0','unknown'),"
         "('tensor_stats.dtype','1','float32'),('tensor_stats.dtype','2','float16'),"
         "('tensor_stats.dtype','3','bfloat16'),('tensor_stats.dtype','4','float64');";
}

// One run: the file has no row for it. When it ended, and how, it does not say; written to within
// the last minute, it goes on.
std::string RunTable(const Columns& stats, const Columns& scale) {
  std::string times = "SELECT NULL AS t";
  const auto ends = [&](const std::string& table, const std::string& order) {
    for (const char* direction : {"", " DESC"}) {
      times += " UNION ALL SELECT * FROM (SELECT ts FROM main." + table + " ORDER BY " + order +
               direction + " LIMIT 1)";
    }
  };
  if (stats.Has("ts")) ends("layer_stats", "rowid");
  if (scale.Has("ts") && scale.Has("step")) ends("loss_scale_history", "step");
  const std::string precision =
      scale.any() ? "CASE WHEN EXISTS (SELECT 1 FROM main.loss_scale_history) THEN 'fp16' END"
                  : "NULL";
  return "CREATE TEMP TABLE run AS SELECT 1 AS run_id, ?1 AS name, NULL AS parent, 0 AS rank,"
         " 1 AS world_size, coalesce(min(t), 0.0) AS started_at, max(t) AS heartbeat_at,"
         " CASE WHEN max(t) > strftime('%s','now') - 60 THEN NULL"
         " ELSE coalesce(max(t), 0.0) END AS ended_at, NULL AS end_reason, " +
         precision +
         " AS precision, NULL AS trace_interval, NULL AS environment, NULL AS notes FROM (" +
         times + ")";
}

}  // namespace

Result<std::vector<std::string>> PresentEarlierMonitor(sqlite3* database, const std::string& name) {
  const Columns stats(database, "layer_stats"), alerts(database, "alerts"),
      scale(database, "loss_scale_history");
  for (const char* needed : {"step", "phase", "layer_name"}) {
    if (!stats.Has(needed)) {
      return DataCorrupt("its table layer_stats has no column " + std::string(needed) + ".");
    }
  }
  for (const char* needed : {"step", "alert_type", "severity"}) {
    if (!alerts.Has(needed)) {
      return DataCorrupt("its table alerts has no column " + std::string(needed) + ".");
    }
  }
  const auto failure = [&] {
    return DataCorrupt("its tables cannot be read (" +
                       EscapeControl(sqlite3_errmsg(database), 200) + ").");
  };
  const auto execute = [&](const std::string& sql) {
    return sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
  };
  if (!execute(Tables(database, stats))) return failure();
  Writer run(database, RunTable(stats, scale));
  run << std::string_view(name);
  if (!run.Run()) return failure();
  const bool several = HasSeveralCalls(database);
  if (!execute(StatsView(stats, several)) || !execute(StepView(scale)) ||
      !execute(AlertView(alerts))) {
    return failure();
  }
  std::vector<std::string> notes{
      "Recorded by the earlier Python monitor: it kept no loss, no learning rate, no gradient "
      "norm, no numbers of elements and not how the run ended; an infinite value's sign is not "
      "known and is shown as +Inf."};
  if (several) {
    notes.push_back(
        "Some steps hold several rows of one layer: it was called more than once, or several runs "
        "wrote to this file, which nothing in it tells apart.");
  }
  return notes;
}

}  // namespace mpnanny::imports
