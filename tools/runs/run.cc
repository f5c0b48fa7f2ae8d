#include "tools/runs/run.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "base/json.h"
#include "base/process_info.h"
#include "base/text.h"

namespace mpnanny::runs {
namespace {

// The monitor's writer flushes at least twice a second (docs/architecture.md, "Monitor"), on a
// network file system it publishes every 30 s: two of those without one is a run that nobody writes
// any more.
constexpr double kFreshSeconds = 60;
constexpr int64_t kMaxRuns = 100'000;

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The host that the run was recorded on, from its environment; "" if not known.
std::string HostOf(const Run& run) {
  if (run.environment.empty()) return "";
  auto environment = ParseJson(run.environment);
  if (!environment || !environment->is_object()) return "";
  const auto host = environment->find("host");
  return host != environment->end() && host->is_string() ? host->get<std::string>() : "";
}

bool RingBelongs(const Ring& ring, const Run& run) {
  return ring.present && ring.run_id == *run.handle.run_id && ring.run_started_at == run.started_at;
}

Status StatusOf(const Run& run, const Ring& ring) {
  if (run.end_reason == "closed") return Status::kClosed;
  if (run.end_reason == "exception") return Status::kException;
  if (!run.end_reason.empty())
    return Status::kKilled;  // "signal", and whatever a later version adds
  if (run.ended_at) return Status::kClosed;
  const bool ours = RingBelongs(ring, run);
  if (ours && ring.closed) return Status::kClosed;
  const bool fresh = run.heartbeat_at.value_or(run.started_at) > Now() - kFreshSeconds;
  if (ours && ring.pid > 0) {
    const std::string host = HostOf(run);
    if (!host.empty() && host == HostName()) {
      return ProcessRuns(ring.pid, run.started_at) ? Status::kRunning : Status::kKilled;
    }
  }
  return fresh ? Status::kRunning : Status::kKilled;
}

constexpr std::string_view kSelectRun =
    "SELECT run_id, name, parent, rank, world_size, started_at, heartbeat_at, ended_at, end_reason,"
    " precision, trace_interval,"
    " CASE WHEN length(environment) <= 262144 THEN environment END,"
    " CASE WHEN length(notes) <= 262144 THEN notes END FROM run";

Run RunOf(const Statement& row, const std::string& path, const Ring& ring) {
  Run run;
  run.handle = {path, row.IntOr(0, 0)};
  run.name = row.TextOr(1).substr(0, 2000);
  run.parent = row.Int(2);
  run.rank = row.IntOr(3, 0);
  run.world_size = row.IntOr(4, 1);
  run.started_at = row.Real(5).value_or(0);
  run.heartbeat_at = row.Real(6);
  run.ended_at = row.Real(7);
  run.end_reason = row.TextOr(8);
  run.precision = EscapeControl(row.TextOr(9), 40);
  run.trace_interval = row.Int(10);
  run.environment = row.TextOr(11);
  run.notes = row.TextOr(12);
  run.status = StatusOf(run, ring);
  return run;
}

// "Runs in this file: 1, 2, 3." nearest to the one asked for, at most seven.
std::string NearestIds(std::vector<Run> runs, int64_t wanted) {
  const auto distance = [&](const Run& run) {
    const int64_t id = *run.handle.run_id;
    return id > wanted ? static_cast<uint64_t>(id) - static_cast<uint64_t>(wanted)
                       : static_cast<uint64_t>(wanted) - static_cast<uint64_t>(id);
  };
  std::stable_sort(runs.begin(), runs.end(),
                   [&](const Run& a, const Run& b) { return distance(a) < distance(b); });
  std::set<int64_t> nearest;
  for (size_t i = 0; i < runs.size() && i < 7; ++i) nearest.insert(*runs[i].handle.run_id);
  std::vector<std::string> ids;
  for (const int64_t id : nearest) ids.push_back(std::to_string(id));
  return (runs.size() > 7 ? "The nearest of its " + std::to_string(runs.size()) + " runs: "
                          : "Its runs: ") +
         Join(ids, ", ") + ".";
}

}  // namespace

const char* StatusName(Status status) {
  switch (status) {
    case Status::kRunning:
      return "running";
    case Status::kClosed:
      return "closed";
    case Status::kException:
      return "exception";
    case Status::kKilled:
      return "killed";
  }
  return "killed";
}

Result<std::vector<Run>> ReadRuns(const Database& database, const Ring& ring) {
  auto rows =
      database.Prepare(std::string(kSelectRun) + " ORDER BY started_at DESC, run_id DESC LIMIT ?1");
  if (!rows) return rows.error();
  rows->Bind(1, kMaxRuns);
  std::vector<Run> runs;
  while (true) {
    auto row = rows->Next();
    if (!row) return row.error();
    if (!*row) return runs;
    runs.push_back(RunOf(*rows, database.path(), ring));
  }
}

Result<Source> OpenRun(const std::string& handle, const AllowedRoots& roots,
                       const CancelToken& cancel) {
  RunHandle wanted = ParseRunHandle(handle);
  auto path = roots.Resolve(wanted.path);
  // A file may be named "a#1": the handle's text as it stands is tried before the miss is told.
  if (!path && wanted.run_id) {
    if (auto whole = roots.Resolve(handle)) {
      path = std::move(whole);
      wanted.run_id.reset();
    }
  }
  if (!path) return path.error();
  auto database = Database::Open(*path, cancel);
  if (!database) return database.error();

  Source source;
  source.database = *std::move(database);
  Ring ring = ReadRing(*path);
  source.notes = ring.notes;
  auto runs = ReadRuns(*source.database, ring);
  if (!runs) return runs.error();
  if (runs->empty()) {
    return NotFound(EscapeControl(*path) + " holds no run yet.",
                    "The training may not have made its first step.");
  }
  const auto found = !wanted.run_id ? runs->begin()
                                    : std::find_if(runs->begin(), runs->end(), [&](const Run& run) {
                                        return run.handle.run_id == wanted.run_id;
                                      });
  if (found == runs->end()) {
    return NotFound(
        "Run " + std::to_string(*wanted.run_id) + " is not in " + EscapeControl(*path) + ".",
        NearestIds(*std::move(runs), *wanted.run_id));
  }
  source.run = std::move(*found);
  if (RingBelongs(ring, source.run)) {
    source.ring = std::move(ring);
  } else if (ring.present && runs->size() == 1) {
    source.notes.push_back("The flight recorder beside the database belongs to another run.");
  }
  if (source.database->wal_missing() && source.run.status != Status::kClosed) {
    source.notes.push_back(
        "The database lies here without its '-wal' file, in which a run's last changes stand until "
        "it ends: the end of the run may be missing.");
  }
  return source;
}

}  // namespace mpnanny::runs
