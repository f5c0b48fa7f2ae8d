#include "engines/team/thin.h"

#include <charconv>
#include <vector>

#include "base/sample_thinning.h"
#include "base/text.h"
#include "engines/team/connection.h"
#include "engines/team/layout.h"

namespace mpnanny::team {
namespace {

Connection::Options OwnersOptions() {
  Connection::Options options;
  options.application = "mpnanny ship --thin";
  return options;
}

struct Old {
  int64_t training = 0;
  std::string thinned;
};

Result<std::vector<Old>> OldTrainings(Connection& connection, double seconds) {
  std::vector<Old> found;
  MPN_TRY_ASSIGN(auto rows,
                 connection.Query(
                     "SELECT t.training_id, coalesce(t.thinned, '') FROM mpnanny.training t WHERE "
                     "(SELECT max(greatest(r.heartbeat_at, r.ended_at, r.started_at)) FROM "
                     "mpnanny.run r WHERE r.training_id = t.training_id) < extract(epoch FROM "
                     "clock_timestamp()) - $1::float8 ORDER BY 1",
                     {seconds}));
  while (true) {
    MPN_TRY_ASSIGN(auto next, rows.Next());
    if (!next) return found;
    found.push_back({rows.IntOr(0, 0), rows.TextOr(1)});
  }
}

// The rows of a rank that stay are known by rows alone: thinned again the same way, none goes.
std::string ThinStatement(int64_t training) {
  return "WITH sampled AS (SELECT rank, step, dense_rank() OVER (PARTITION BY rank ORDER BY step) "
         "AS place FROM (SELECT DISTINCT rank, step FROM mpnanny.tensor_stats WHERE training_id = "
         "$1::bigint) s), near AS (SELECT s.rank, s.step FROM sampled s WHERE EXISTS (SELECT FROM "
         "mpnanny.alert a WHERE a.training_id = $1::bigint AND a.rank = s.rank AND s.step BETWEEN "
         "a.step - " +
         std::to_string(kThinningAlertSteps) + " AND coalesce(a.last_step, a.step) + " +
         std::to_string(kThinningAlertSteps) +
         ")), judged AS (SELECT rank, step, layer_id, kind, slot, greatest(nan, posinf, neginf) > "
         "0 AS bad,"
         " row_number() OVER (PARTITION BY rank, layer_id, kind, slot ORDER BY absmax DESC NULLS "
         "LAST, step) AS largest, row_number() OVER (PARTITION BY rank, layer_id, kind, slot ORDER "
         "BY absmax NULLS LAST, step) AS smallest FROM mpnanny.tensor_stats WHERE training_id = "
         "$1::bigint) DELETE FROM mpnanny." +
         Quoted(PartitionOf("tensor_stats", training)) +
         " t USING judged j, sampled s WHERE (t.rank, t.step, t.layer_id, t.kind, t.slot) = "
         "(j.rank, j.step, j.layer_id, j.kind, j.slot) AND (s.rank, s.step) = (t.rank, t.step) AND "
         "(s.place - 1) % $2::bigint <> 0 AND NOT coalesce(j.bad, false) AND j.largest > 1 AND "
         "j.smallest > 1 AND NOT EXISTS (SELECT FROM near n WHERE (n.rank, n.step) = (t.rank, "
         "t.step))";
}

}  // namespace

Result<double> ParseAge(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(end, text.data() + text.size());
  const double seconds = unit == "d" ? 86400 : unit == "h" ? 3600 : unit == "m" ? 60 : 0;
  if (error != std::errc() || number < 1 || seconds == 0) {
    return InvalidInput("'" + EscapeControl(text, 60) + "' is no time.",
                        "A number and a unit: 30d, 12h, 90m.");
  }
  return static_cast<double>(number) * seconds;
}

Result<std::string> Thin(const Address& address, const std::string& older_than, int64_t keep_every,
                         const CancelToken& cancel) {
  MPN_TRY_ASSIGN(const double seconds, ParseAge(older_than));
  MPN_TRY_ASSIGN(auto connection, Connection::Open(address, cancel, OwnersOptions()));
  MPN_TRY(CheckLayout(*connection));
  MPN_TRY_ASSIGN(auto old, OldTrainings(*connection, seconds));
  const std::string how = "one in " + std::to_string(keep_every);
  int64_t rows = 0, thinned = 0;
  for (const Old& one : old) {
    if (one.thinned == how) continue;
    MPN_TRY_ASSIGN(const int64_t gone,
                   connection->Execute(ThinStatement(one.training), {one.training, keep_every}));
    MPN_TRY(connection->Execute("UPDATE mpnanny.training SET thinned = $2 WHERE training_id = $1",
                                {one.training, how}));
    rows += gone;
    ++thinned;
    // The room goes back to the disk; the table is small by now.
    if (gone > 0) {
      MPN_TRY(connection->Execute("VACUUM (FULL, ANALYZE) mpnanny." +
                                  Quoted(PartitionOf("tensor_stats", one.training))));
    }
  }
  return std::to_string(thinned) + " of " + std::to_string(old.size()) + " runs older than " +
         older_than + " were thinned: " + std::to_string(rows) + " rows of statistics went, " +
         how + " samples, every tensor's extremes and all within " +
         std::to_string(kThinningAlertSteps) + " steps of an alert stayed.";
}

Result<std::string> Drop(const Address& address, const CancelToken& cancel) {
  if (!address.training) {
    return InvalidInput("Which run is to go?", "Its handle ends in '#' and its number.");
  }
  const int64_t training = *address.training;
  MPN_TRY_ASSIGN(auto connection, Connection::Open(address, cancel, OwnersOptions()));
  MPN_TRY(CheckLayout(*connection));
  MPN_TRY_ASSIGN(const std::vector<Table>* tables, MonitorTables());
  MPN_TRY(connection->Execute("BEGIN"));
  MPN_TRY_ASSIGN(const int64_t there,
                 connection->Execute("SELECT FROM mpnanny.training WHERE training_id = $1 FOR "
                                     "UPDATE",
                                     {training}));
  if (there == 0) {
    return NotFound("There is no run " + std::to_string(training) + " in " +
                        EscapeControl(UrlOf(address)) + ".",
                    "`mpnanny runs` with the URL shows its runs.");
  }
  for (const char* table : {"run", "part"}) {
    MPN_TRY(connection->Execute(
        std::string("DELETE FROM mpnanny.") + table + " WHERE training_id = $1", {training}));
  }
  for (const Table& table : *tables) {
    MPN_TRY(connection->Execute("DROP TABLE IF EXISTS mpnanny." +
                                Quoted(PartitionOf(table.name, training))));
  }
  MPN_TRY(connection->Execute("DROP TABLE IF EXISTS mpnanny." +
                              Quoted(PartitionOf("step_all", training))));
  MPN_TRY(connection->Execute("DELETE FROM mpnanny.training WHERE training_id = $1", {training}));
  MPN_TRY(connection->Execute("COMMIT"));
  return "Run " + std::to_string(training) + " is gone, with all its ranks.";
}

}  // namespace mpnanny::team
