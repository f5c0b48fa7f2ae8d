#include "engines/team/part_writer.h"

#include <chrono>

#include "base/process_info.h"
#include "base/text.h"
#include "engines/team/failure.h"

namespace mpnanny::team {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string NamesOf(const Table& table) {
  std::vector<std::string> names = {"training_id", "rank"};
  for (const Column& column : table.columns) names.push_back(Quoted(column.name));
  return Join(names, ", ");
}

// What happens to a row whose key is there.
std::string OnConflict(const Table& table) {
  std::vector<std::string> key = {"training_id", "rank"};
  for (const std::string& name : table.key) key.push_back(Quoted(name));
  const std::string conflict = " ON CONFLICT (" + Join(key, ", ") + ") DO ";
  std::vector<std::string> set, old, excluded;
  for (size_t i = 0; table.changes && i < table.columns.size(); ++i) {
    const std::string name = Quoted(table.columns[i].name);
    if (table.columns[i].name == "run_id") continue;
    bool in_key = false;
    for (const size_t place : table.key_places) in_key = in_key || place == i;
    if (in_key) continue;
    set.push_back(name + "=excluded." + name);
    old.push_back("t." + name);
    excluded.push_back("excluded." + name);
  }
  if (set.empty()) return conflict + "NOTHING";
  return conflict + "UPDATE SET " + Join(set, ", ") + " WHERE ROW(" + Join(old, ", ") +
         ") IS DISTINCT FROM ROW(" + Join(excluded, ", ") + ")";
}

Result<int64_t> CopyInto(Connection& connection, const std::string& where, const Piece& piece) {
  MPN_TRY(connection.BeginCopy("COPY " + where + " (" + NamesOf(*piece.table) +
                               ") FROM STDIN (FORMAT binary)"));
  MPN_TRY(connection.SendCopy(CopyBytes::Header()));
  MPN_TRY(connection.SendCopy(piece.rows));
  MPN_TRY(connection.SendCopy(CopyBytes::Trailer()));
  return connection.EndCopy();
}

// By way of a table of this session, so that rows that are there are told from new ones.
Result<int64_t> MergeInto(Connection& connection, const Piece& piece) {
  const std::string stage = "pg_temp." + Quoted("stage_" + piece.table->name);
  const std::string table = "mpnanny." + Quoted(piece.table->name);
  MPN_TRY(connection.Execute("CREATE TEMPORARY TABLE IF NOT EXISTS " +
                             Quoted("stage_" + piece.table->name) + " (LIKE " + table +
                             ") ON COMMIT DELETE ROWS"));
  MPN_TRY(CopyInto(connection, stage, piece));
  const std::string names = NamesOf(*piece.table);
  return connection.Execute("INSERT INTO " + table + " AS t (" + names + ") SELECT " + names +
                            " FROM " + stage + OnConflict(*piece.table));
}

// step_all is no longer whole from here on.
Result<void> LowerMerged(Connection& connection, const Part& part, int64_t first_step) {
  MPN_TRY(connection.Execute(
      "UPDATE mpnanny.training SET merged_to = $2::bigint - 1 WHERE training_id = $1 AND merged_to "
      ">= $2::bigint",
      {part.training, first_step}));
  return {};
}

Result<Written> WriteInTransaction(Connection& connection, Part& part, Batch& batch, bool ended) {
  MPN_TRY(connection.Execute("BEGIN"));
  // The end is told only of what is on the disk there; until then a crash of the server takes marks
  // and rows back together, and they are shipped again.
  if (!ended) MPN_TRY(connection.Execute("SET LOCAL synchronous_commit = off"));
  std::string stored;
  {
    MPN_TRY_ASSIGN(auto rows, connection.Query("SELECT shipped::text, (SELECT version FROM "
                                               "mpnanny.version) FROM mpnanny.part WHERE "
                                               "training_id = $1 AND rank = $2 FOR UPDATE",
                                               {part.training, part.rank}));
    MPN_TRY_ASSIGN(auto next, rows.Next());
    const auto layout = static_cast<int>(next ? rows.IntOr(1, -1) : kLayoutVersion);
    if (layout != kLayoutVersion) return WrongLayout(connection.address(), layout);
    if (!next) {
      return NotFound("Training " + std::to_string(part.training) +
                          " was dropped from the database while it was shipped.",
                      "Ship it again if it is wanted.");
    }
    stored = rows.TextOr(0);
    MPN_TRY_ASSIGN(auto end, rows.Next());
    (void)end;
  }
  if (stored != part.stored) {
    part.stored = stored;
    part.marks = ParseMarks(stored);
    MPN_TRY(connection.Execute("ROLLBACK"));
    return Written{true, 0};
  }
  Marks marks = batch.marks;
  Written done;
  for (const Piece& piece : batch.pieces) {
    const std::string& name = piece.table->name;
    if (!piece.again && !part.careful) {
      MPN_TRY_ASSIGN(const int64_t came, CopyInto(connection, "mpnanny." + Quoted(name), piece));
      done.rows += came;
    } else {
      MPN_TRY_ASSIGN(const int64_t came, MergeInto(connection, piece));
      done.rows += came;
      if (piece.again && !piece.table->changes) marks[name].rows += came;
    }
    if (name == "step" && piece.first_step) {
      MPN_TRY(LowerMerged(connection, part, *piece.first_step));
    }
  }
  const auto steps = marks.find("step");
  const auto steps_to = steps == marks.end() ? std::nullopt : FirstOf(steps->second);
  MPN_TRY_ASSIGN(
      auto rows,
      connection.Query(
          "UPDATE mpnanny.part SET shipped = $3::jsonb, steps_to = $4::bigint, ended = "
          "$5::boolean, shipped_at = $6 WHERE training_id = $1 AND rank = $2 RETURNING "
          "shipped::text",
          {part.training, part.rank, DumpJson(MarksJson(marks)),
           steps_to ? Value(*steps_to) : Value(), std::string(ended ? "t" : "f"), Now()}));
  MPN_TRY_ASSIGN(auto next, rows.Next());
  stored = next ? rows.TextOr(0) : "";
  MPN_TRY_ASSIGN(auto end, rows.Next());
  (void)end;
  MPN_TRY(connection.Execute("COMMIT"));
  part.marks = std::move(marks);
  part.stored = stored;
  part.ended = ended;
  return done;
}

}  // namespace

Result<Part> OpenPart(Connection& connection, const runs::Run& run) {
  std::string host = runs::EnvironmentText(run, "host");
  if (host.empty()) host = HostName();
  Part part;
  part.rank = run.rank;
  {
    MPN_TRY_ASSIGN(
        auto rows,
        connection.Query("SELECT mpnanny.open_part($1, $2::bigint, $3::integer, $4::float8, "
                         "$5::bigint, $6, $7)",
                         {ServerText(run.name), run.world_size, run.rank, run.started_at,
                          *run.handle.run_id, ServerText(host), ServerText(run.handle.path)}));
    MPN_TRY_ASSIGN(auto next, rows.Next());
    part.training = next ? rows.IntOr(0, 0) : 0;
    MPN_TRY_ASSIGN(auto end, rows.Next());
    (void)end;
  }
  MPN_TRY_ASSIGN(auto rows, connection.Query("SELECT p.shipped::text, p.ended, t.thinned IS NOT "
                                             "NULL FROM mpnanny.part p JOIN mpnanny.training t "
                                             "USING (training_id) WHERE training_id = $1 AND "
                                             "rank = $2",
                                             {part.training, part.rank}));
  MPN_TRY_ASSIGN(auto next, rows.Next());
  if (next) {
    part.stored = rows.TextOr(0);
    part.marks = ParseMarks(part.stored);
    part.ended = rows.IntOr(1, 0) != 0;
    part.thinned = rows.IntOr(2, 0) != 0;
  }
  return part;
}

Result<Written> WriteBatch(Connection& connection, Part& part, Batch& batch, bool ended) {
  auto written = WriteInTransaction(connection, part, batch, ended);
  if (written) return written;
  const std::string state = connection.state();
  if (connection.alive()) {
    // Of a transaction that failed nothing stays; what was wrong is told already.
    if (auto undone = connection.Execute("ROLLBACK"); !undone) return undone.error();
  }
  if (state == "23505" && !part.careful) {  // a key that the marks do not know
    part.careful = true;
    return WriteBatch(connection, part, batch, ended);
  }
  return written;
}

}  // namespace mpnanny::team
