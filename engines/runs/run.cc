#include "engines/runs/run.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/json.h"
#include "base/process_info.h"
#include "base/text.h"
#include "engines/runs/packed.h"

namespace mpnanny::runs {
namespace {

// The monitor's writer flushes at least twice a second (docs/monitor_files.md, "The writer"), on a
// network file system it publishes every 30 s: two of those without one is a run that nobody writes
// any more (kFreshSeconds). Copies of a large file come ten times as slowly as they are made: so
// many bytes a second must be allowed for.
constexpr double kPublishedBytesPerSecond = 4e6;
constexpr int64_t kMaxRuns = 100'000;

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Status StatusOf(const Run& run, const Ring& ring, double fresh_seconds) {
  if (run.end_reason == EndReason::kClosed) return Status::kClosed;
  if (run.end_reason == EndReason::kException) return Status::kException;
  if (!run.end_reason.empty())
    return Status::kKilled;  // "signal", and whatever a later version adds
  if (run.ended_at) return Status::kClosed;
  const bool ours = RingBelongs(ring, run);
  if (ours && ring.end == kRingExceptionUnwritten) return Status::kException;
  if (ours && (ring.end == kRingClosed || ring.end == kRingClosedUnwritten)) return Status::kClosed;
  if (ours && ring.end != kRingOpen) return Status::kKilled;  // a signal
  const bool fresh = run.heartbeat_at.value_or(run.started_at) > Now() - fresh_seconds;
  if (ours && ring.pid > 0) {
    const std::string host = EnvironmentText(run, "host");
    if (!host.empty() && host == HostName()) {
      return ProcessRuns(ring.pid, run.started_at) ? Status::kRunning : Status::kKilled;
    }
  }
  return fresh ? Status::kRunning : Status::kKilled;
}

constexpr std::string_view kSelectRun =
    "SELECT run_id, name, parent, rank, world_size, started_at, heartbeat_at, ended_at, end_reason,"
    " precision, trace_interval";
constexpr std::string_view kTexts =
    "CASE WHEN length(environment) <= 262144 THEN environment END,"
    " CASE WHEN length(notes) <= 262144 THEN notes END";

Run RunOf(const Statement& row, const std::string& path, const Ring& ring, double fresh_seconds) {
  Run run;
  run.handle = {path, row.IntOr(0, 0)};
  run.name = row.TextOr(1).substr(0, 2000);
  run.parent = row.Int(2);
  run.rank = row.IntOr(3, 0);
  run.world_size = row.IntOr(4, 1);
  run.started_at = row.Real(5).value_or(0);
  run.heartbeat_at = row.Real(6);
  run.ended_at = row.Real(7);
  run.end_reason = Word<EndReason>(row.TextOr(8));
  run.precision = Word<Precision>(EscapeControl(row.TextOr(9), 40));
  run.trace_interval = row.Int(10);
  run.environment = row.TextOr(11);  // absent where only the figures are asked for
  run.notes = row.TextOr(12);
  run.status = StatusOf(run, ring, fresh_seconds);
  return run;
}

}  // namespace

std::string EnvironmentText(const Run& run, const char* key) {
  if (run.environment.empty()) return "";
  const auto environment = ParseJson(run.environment);
  if (!environment || !environment->is_object()) return "";
  const auto text = environment->find(key);
  return text != environment->end() && text->is_string() ? text->get<std::string>() : "";
}

bool RingBelongs(const Ring& ring, const Run& run) {
  return ring.present && ring.run_id == *run.handle.run_id && ring.run_started_at == run.started_at;
}

Result<std::vector<Run>> ReadRuns(const Database& database, const Ring& ring) {
  MPN_TRY_ASSIGN(auto rows,
                 database.Prepare(std::string(kSelectRun) + ", " + std::string(kTexts) +
                                  " FROM run ORDER BY started_at DESC, run_id DESC LIMIT ?1"));
  rows.Bind(1, kMaxRuns);
  double fresh_seconds = kFreshSeconds;
  std::error_code ec;
  if (const auto bytes = std::filesystem::file_size(database.path(), ec); database.plain() && !ec) {
    fresh_seconds += static_cast<double>(bytes) / kPublishedBytesPerSecond;
  }
  std::vector<Run> runs;
  while (true) {
    MPN_TRY_ASSIGN(auto row, rows.Next());
    if (!row) return runs;
    runs.push_back(RunOf(rows, database.path(), ring, fresh_seconds));
    Run& run = runs.back();
    if (!run.end_reason.empty() || run.ended_at) continue;
    if (const auto packed = ReadPacked(database, *run.handle.run_id)) run.status = packed->status;
  }
}

Result<std::vector<Run>> ReadRanks(const Database& training) {
  MPN_TRY_ASSIGN(auto rows,
                 training.Prepare(std::string(kSelectRun) + " FROM run ORDER BY run_id LIMIT ?1"));
  rows.Bind(1, kMaxRuns);
  std::vector<Run> ranks;
  while (true) {
    MPN_TRY_ASSIGN(auto row, rows.Next());
    if (!row) break;
    ranks.push_back(RunOf(rows, training.path(), {}, kFreshSeconds));
  }
  // A run was packed with all its ranks or with none: one of them tells.
  bool packed = true;
  for (Run& run : ranks) {
    if (!packed || !run.end_reason.empty() || run.ended_at) continue;
    const auto found = ReadPacked(training, *run.handle.run_id);
    packed = found.has_value();
    if (packed) run.status = found->status;
  }
  return ranks;
}

Result<void> ReadTexts(const Database& database, Run& run) {
  MPN_TRY_ASSIGN(auto row,
                 database.Prepare("SELECT " + std::string(kTexts) + " FROM run WHERE run_id=?1"));
  row.Bind(1, *run.handle.run_id);
  MPN_TRY_ASSIGN(auto next, row.Next());
  if (!next) return {};
  run.environment = row.TextOr(0);
  run.notes = row.TextOr(1);
  return {};
}

}  // namespace mpnanny::runs
