// ListTrainings: one question for all trainings of a database.
#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>

#include "engines/runs/ranks.h"
#include "engines/runs/steps.h"
#include "engines/runs/training.h"
#include "engines/team/address.h"
#include "engines/team/snapshot.h"

namespace mpnanny::runs {
namespace {

constexpr int64_t kMostTrainings = 10'000;

// What a rank's row says of how it ended, as Status of run.cc: of all ranks the worst. A rank
// without an end is judged by its last sign of life.
constexpr std::string_view kEnds =
    "SELECT count(*) AS ranks, string_agg(r.rank::text, ',' ORDER BY r.rank) AS numbers,"
    " bool_or(r.end_reason='exception') AS raised,"
    " bool_or(r.end_reason NOT IN ('closed', 'exception', '')) AS killed,"
    " min(coalesce(r.heartbeat_at, r.started_at))"
    " FILTER (WHERE coalesce(r.end_reason, '')='' AND r.ended_at IS NULL) AS alive"
    " FROM mpnanny.run r WHERE r.training_id=t.training_id";

constexpr std::string_view kFirst =
    "SELECT left(r.name, 2000) AS name, r.started_at, left(r.precision, 40) AS precision"
    " FROM mpnanny.run r WHERE r.training_id=t.training_id ORDER BY r.rank LIMIT 1";

// What was merged, and of the steps after that those of the rank that is ahead.
constexpr std::string_view kSteps =
    "SELECT (SELECT count(*) FROM mpnanny.step_all s WHERE s.training_id=t.training_id"
    "   AND s.step<=t.merged_to) +"
    " (SELECT count(*) FROM mpnanny.step s WHERE s.training_id=t.training_id AND s.rank=p.rank"
    "   AND (t.merged_to IS NULL OR s.step>t.merged_to)) AS steps, p.steps_to"
    " FROM mpnanny.part p WHERE p.training_id=t.training_id"
    " ORDER BY p.steps_to DESC NULLS LAST, p.rank LIMIT 1";

// The loss of the last step: of those ranks that have it.
constexpr std::string_view kLoss =
    "SELECT avg(s.loss) AS loss, bit_or(s.flags) FILTER (WHERE s.loss IS NULL) AS flags"
    " FROM mpnanny.part p JOIN mpnanny.step s ON s.training_id=t.training_id AND s.rank=p.rank"
    " AND s.step=p.steps_to WHERE p.training_id=t.training_id AND p.steps_to=steps.steps_to";

constexpr std::string_view kEarlierLoss =
    "SELECT s.loss, s.flags FROM mpnanny.step_all s WHERE s.training_id=t.training_id"
    " AND (s.loss IS NOT NULL OR s.flags & 3 <> 0) ORDER BY s.step DESC LIMIT 1";

// "(SELECT …) UNION ALL …": of each severity the first, the worst severity before.
std::string WorstAlert() {
  std::string sql;
  int order = 0;
  for (const char* severity : {"ERROR", "WARNING", "INFO"}) {
    sql += (order > 0 ? " UNION ALL (" : "(") + std::string("SELECT ") + std::to_string(order) +
           " AS badness, a.severity, left(a.type, 200) AS type, a.step, a.rank FROM mpnanny.alert a"
           " WHERE a.training_id=t.training_id AND a.severity='" +
           severity + "' ORDER BY a.step, a.rank, a.alert_id LIMIT 1)";
    ++order;
  }
  return "SELECT * FROM (" + sql + ") AS each ORDER BY badness LIMIT 1";
}

double SecondsNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Status StatusOfRanks(const team::Select& row) {
  if (row.Int(7).value_or(0)) return Status::kException;
  if (row.Int(8).value_or(0)) return Status::kKilled;
  const auto alive = row.Real(9);
  if (!alive) return Status::kClosed;
  return *alive > SecondsNow() - kFreshSeconds ? Status::kRunning : Status::kKilled;
}

std::optional<double> LastLossOf(std::optional<double> loss, std::optional<int64_t> flags) {
  const auto bad = static_cast<uint32_t>(flags.value_or(0));
  if (bad & kLossNan) return std::numeric_limits<double>::quiet_NaN();
  if (bad & kLossInf) return std::numeric_limits<double>::infinity();
  return loss;
}

}  // namespace

Result<std::vector<ListedTraining>> ListTrainings(const std::string& url, const AllowedRoots& roots,
                                                  const CancelToken& cancel) {
  MPN_TRY_ASSIGN(const team::Address address, AllowedAddress(url, roots));
  MPN_TRY_ASSIGN(const std::unique_ptr<team::Snapshot> snapshot,
                 team::Snapshot::Open(address, cancel));
  const auto lateral = [](std::string_view sql, const char* name) {
    return " LEFT JOIN LATERAL (" + std::string(sql) + ") AS " + name + " ON true";
  };
  MPN_TRY_ASSIGN(
      const std::unique_ptr<team::Select> rows,
      snapshot->PrepareOfAll(
          "SELECT t.training_id, t.world_size, coalesce(first.name, left(t.name, 2000)),"
          " coalesce(first.started_at, t.started_at), first.precision, ends.ranks, ends.numbers,"
          " ends.raised, ends.killed, ends.alive, steps.steps, steps.steps_to, last.loss,"
          " last.flags, earlier.loss, earlier.flags, worst.severity, worst.type, worst.step,"
          " worst.rank FROM mpnanny.training t" +
          lateral(kEnds, "ends") + lateral(kFirst, "first") + lateral(kSteps, "steps") +
          lateral(kLoss, "last") + lateral(kEarlierLoss, "earlier") +
          lateral(WorstAlert(), "worst") +
          " ORDER BY t.started_at DESC, t.training_id DESC LIMIT " +
          std::to_string(kMostTrainings)));
  std::vector<ListedTraining> all;
  while (true) {
    MPN_TRY_ASSIGN(auto next, rows->Next());
    if (!next) return all;
    const team::Select& row = *rows;
    ListedTraining listed;
    Run& run = listed.run;
    run.handle = {team::UrlOf(address), row.Int(0).value_or(0)};
    run.world_size = row.Int(1).value_or(1);
    run.name = row.Text(2).value_or("");
    run.started_at = row.Real(3).value_or(0);
    run.precision = Word<Precision>(row.Text(4).value_or(""));
    listed.ranks = NumbersOf(row.Text(6).value_or(""));
    if (!listed.ranks.empty()) run.rank = listed.ranks.front();
    run.status = StatusOfRanks(row);
    listed.steps = row.Int(10).value_or(0);
    listed.last_step = row.Int(11);
    listed.last_loss = LastLossOf(row.Real(12), row.Int(13));
    if (!listed.last_loss) listed.last_loss = LastLossOf(row.Real(14), row.Int(15));
    listed.worst_severity = Word<Severity>(row.Text(16).value_or(""));
    listed.worst_type = Word<AlertType>(row.Text(17).value_or(""));
    listed.worst_step = row.Int(18);
    listed.worst_rank = row.Int(19);
    all.push_back(std::move(listed));
  }
}

}  // namespace mpnanny::runs
