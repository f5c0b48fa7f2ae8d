#include "engines/team/setup.h"

#include <algorithm>

#include "base/text.h"
#include "engines/team/connection.h"
#include "engines/team/layout.h"

namespace mpnanny::team {
namespace {

// A table's run rows are looked up over all trainings, and there is one a rank: no partitions.
bool IsPartitioned(const Table& table) { return table.name != "run"; }

std::string ColumnList(const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back(Quoted(name));
  return Join(quoted, ", ");
}

std::string Described(const Column& column) {
  std::string text = Quoted(column.name) + " " + ServerType(column.type);
  if (column.required) text += " NOT NULL";
  if (!column.otherwise.empty()) text += " DEFAULT " + column.otherwise;
  return text;
}

void AddMonitorTable(const Table& table, std::vector<std::string>& statements) {
  const std::string name = "mpnanny." + Quoted(table.name);
  std::string make =
      "CREATE TABLE IF NOT EXISTS " + name + " (training_id bigint NOT NULL, rank integer NOT NULL";
  for (const Column& column : table.columns) make += ", " + Described(column);
  std::vector<std::string> key = {"training_id", "rank"};
  key.insert(key.end(), table.key.begin(), table.key.end());
  make += ", PRIMARY KEY (" + ColumnList(key) + "))";
  if (IsPartitioned(table)) make += " PARTITION BY LIST (training_id)";
  statements.push_back(make);
  // Of a layout that an earlier schema made.
  for (const Column& column : table.columns) {
    Column added = column;
    added.required = added.required && !added.otherwise.empty();
    statements.push_back("ALTER TABLE " + name + " ADD COLUMN IF NOT EXISTS " + Described(added));
  }
}

void AddIndex(const std::string& name, const std::string& on,
              std::vector<std::string>& statements) {
  statements.push_back("CREATE INDEX IF NOT EXISTS " + name + " ON mpnanny." + on);
}

void AddRoles(const std::vector<Table>& tables, std::vector<std::string>& statements) {
  for (const char* role : {kWriterRole, kReaderRole}) {
    statements.push_back(
        "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = '" +
        std::string(role) + "') THEN CREATE ROLE " + role +
        " NOLOGIN; END IF; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$");
    statements.push_back("GRANT USAGE ON SCHEMA mpnanny TO " + std::string(role));
    statements.push_back("GRANT SELECT ON ALL TABLES IN SCHEMA mpnanny TO " + std::string(role));
  }
  const std::string writer = kWriterRole;
  statements.push_back("REVOKE ALL ON ALL FUNCTIONS IN SCHEMA mpnanny FROM PUBLIC");
  statements.push_back("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA mpnanny TO " + writer);
  statements.push_back("DO $$ BEGIN EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO " + writer +
                       "', current_database()); END $$");
  // It adds rows. What it may change is what changes while a run goes on, never what a row is.
  for (const Table& table : tables) {
    statements.push_back("GRANT INSERT ON mpnanny." + Quoted(table.name) + " TO " + writer);
    if (!table.changes) continue;
    std::vector<std::string> changing;
    for (const Column& column : table.columns) {
      const bool fixed =
          column.name == "rank" || column.name == "run_id" ||
          std::find(table.key.begin(), table.key.end(), column.name) != table.key.end();
      if (!fixed) changing.push_back(column.name);
    }
    statements.push_back("GRANT UPDATE (" + ColumnList(changing) + ") ON mpnanny." +
                         Quoted(table.name) + " TO " + writer);
  }
  statements.push_back("GRANT INSERT, UPDATE ON mpnanny.step_all TO " + writer);
  statements.push_back(
      "GRANT UPDATE (path, shipped, steps_to, ended, shipped_at) ON mpnanny.part "
      "TO " +
      writer);
  statements.push_back("GRANT UPDATE (merged_to, merged_at) ON mpnanny.training TO " + writer);
}

// One statement that adds a training's rank and says its number. It runs as the tables' owner: a
// writer may make neither a partition nor a training.
//
// Ranks of one training find each other as engines/runs/ranks.h groups them: same name, same world
// size, begun within ten minutes, each rank once. A file that comes again is told by its run's
// start, number and host.
std::string OpenPart(const std::vector<Table>& tables) {
  std::string partitions;
  for (const Table& table : tables) {
    if (IsPartitioned(table)) partitions += (partitions.empty() ? "'" : ", '") + table.name + "'";
  }
  partitions += ", 'step_all'";
  return R"(CREATE OR REPLACE FUNCTION mpnanny.open_part(
  a_name text, a_world bigint, a_rank integer, a_started double precision, a_run bigint, a_host text,
  a_path text) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE found bigint; one text;
BEGIN
  PERFORM pg_advisory_xact_lock(1297108313, hashtext(a_name || ' ' || a_world));
  SELECT p.training_id INTO found FROM mpnanny.part p JOIN mpnanny.training t USING (training_id)
   WHERE t.name = a_name AND t.world_size = a_world AND p.rank = a_rank
     AND p.started_at = a_started AND p.run_id = a_run AND p.host = a_host LIMIT 1;
  IF found IS NOT NULL THEN RETURN found; END IF;
  IF a_world > 1 THEN
    SELECT t.training_id INTO found FROM mpnanny.training t
     WHERE t.name = a_name AND t.world_size = a_world AND abs(t.started_at - a_started) <= 600
       AND NOT EXISTS (SELECT FROM mpnanny.part p
                        WHERE p.training_id = t.training_id AND p.rank = a_rank)
     ORDER BY t.started_at DESC LIMIT 1;
  END IF;
  IF found IS NULL THEN
    INSERT INTO mpnanny.training (name, world_size, started_at, source_key)
    VALUES (a_name, a_world, a_started,
            a_world || ' ' || a_rank || ' ' || a_run || ' ' || a_started || ' ' || a_host || ' '
            || a_name)
    RETURNING training_id INTO found;
    FOREACH one IN ARRAY ARRAY[)" +
         partitions + R"(]
    LOOP
      EXECUTE format('CREATE TABLE mpnanny.%I PARTITION OF mpnanny.%I FOR VALUES IN (%s)',
                     one || '_' || found, one, found);
    END LOOP;
  END IF;
  INSERT INTO mpnanny.part (training_id, rank, run_id, started_at, host, path)
  VALUES (found, a_rank, a_run, a_started, a_host, a_path);
  RETURN found;
END $$)";
}

// Of trainings that are there already, when a later schema brings a table.
std::string MissingPartitions(const std::vector<Table>& tables) {
  std::string names;
  for (const Table& table : tables) {
    if (IsPartitioned(table)) names += (names.empty() ? "'" : ", '") + table.name + "'";
  }
  return "DO $$ DECLARE t bigint; one text; BEGIN FOR t IN SELECT training_id FROM "
         "mpnanny.training LOOP FOREACH one IN ARRAY ARRAY[" +
         names +
         "] LOOP EXECUTE format('CREATE TABLE IF NOT EXISTS mpnanny.%I PARTITION OF mpnanny.%I FOR "
         "VALUES IN (%s)', one || '_' || t, one, t); END LOOP; END LOOP; END $$";
}

}  // namespace

Result<std::vector<std::string>> SetupStatements() {
  MPN_TRY_ASSIGN(const std::vector<Table>* tables, MonitorTables());
  std::vector<std::string> statements = {
      "DO $$ BEGIN IF pg_catalog.getdatabaseencoding() <> 'UTF8' THEN RAISE EXCEPTION 'the "
      "database''s encoding is %, and names of layers need UTF8', "
      "pg_catalog.getdatabaseencoding(); END IF; END $$",
      "CREATE SCHEMA IF NOT EXISTS mpnanny",
      "CREATE TABLE IF NOT EXISTS mpnanny.version (version integer NOT NULL)",
      "INSERT INTO mpnanny.version SELECT " + std::to_string(kLayoutVersion) +
          " WHERE NOT EXISTS (SELECT FROM mpnanny.version)",
      // merged_to: step_all is whole up to this step; absent: it holds nothing that is.
      "CREATE TABLE IF NOT EXISTS mpnanny.training (training_id bigint GENERATED ALWAYS AS IDENTITY"
      " PRIMARY KEY, name text NOT NULL, world_size bigint NOT NULL, started_at double precision"
      " NOT NULL, source_key text NOT NULL UNIQUE, merged_to bigint, merged_at double precision,"
      " thinned text)",
      // shipped: {"table": {"step" or "row": the last key, "rows": how many}}. steps_to: the last
      // step in `step`. ended: the run is over, and all of it is here.
      "CREATE TABLE IF NOT EXISTS mpnanny.part (training_id bigint NOT NULL REFERENCES"
      " mpnanny.training, rank integer NOT NULL, run_id bigint NOT NULL, started_at double"
      " precision NOT NULL, host text NOT NULL, path text NOT NULL, shipped jsonb NOT NULL DEFAULT"
      " '{}', steps_to bigint, ended boolean NOT NULL DEFAULT false, shipped_at double precision,"
      " PRIMARY KEY (training_id, rank))",
      "CREATE TABLE IF NOT EXISTS mpnanny.step_all (training_id bigint NOT NULL, step bigint NOT"
      " NULL, at double precision, duration double precision, loss double precision, lr double"
      " precision, loss_scale double precision, grad_norm double precision, peak_memory bigint,"
      " flags bigint NOT NULL DEFAULT 0, ranks integer NOT NULL, bad_ranks integer[], PRIMARY KEY"
      " (training_id, step)) PARTITION BY LIST (training_id)",
  };
  for (const Table& table : *tables) AddMonitorTable(table, statements);
  AddIndex("training_by_name", "training (name, world_size, started_at)", statements);
  AddIndex("training_by_start", "training (started_at)", statements);
  AddIndex("layer_by_name", "layer (name, rank)", statements);
  // One layer over all ranks. Its rows lie as far apart as the ranks' samples do, a page each: what
  // is mostly asked for stands in the index beside them.
  AddIndex(
      "tensor_stats_of_layer",
      "tensor_stats (layer_id, kind, step, rank) INCLUDE (training_id, slot, dtype, numel, nan, "
      "posinf, neginf, zeros, absmax, absmin, mean, rms)",
      statements);
  AddIndex("alert_by_step", "alert (step, rank)", statements);
  AddIndex("alert_by_severity", "alert (severity, type, step)", statements);
  AddIndex("alert_first", "alert (severity, step, rank, alert_id)", statements);
  AddIndex("event_by_type", "event (type, step)", statements);
  AddIndex("shadow_finding_by_step", "shadow_finding (step)", statements);
  AddIndex("shadow_profile_by_step", "shadow_profile (step, rank)", statements);
  statements.push_back(OpenPart(*tables));
  statements.push_back(MissingPartitions(*tables));
  AddRoles(*tables, statements);
  return statements;
}

Result<std::string> Setup(const Address& address, const CancelToken& cancel) {
  MPN_TRY_ASSIGN(const auto statements, SetupStatements());
  Connection::Options options;
  options.application = "mpnanny ship --setup";
  MPN_TRY_ASSIGN(auto connection, Connection::Open(address, cancel, options));
  // A layout that is not ours is left as it is.
  MPN_TRY_ASSIGN(const int64_t there,
                 connection->Execute("SELECT WHERE to_regclass('mpnanny.version') IS NOT NULL"));
  if (there > 0) MPN_TRY(CheckLayout(*connection));
  MPN_TRY(connection->Execute("BEGIN"));
  // Two at once would find each other's halves.
  MPN_TRY(connection->Execute("SELECT pg_advisory_xact_lock(1297108313)"));
  for (const std::string& statement : statements) MPN_TRY(connection->Execute(statement));
  MPN_TRY(connection->Execute("COMMIT"));
  return EscapeControl(UrlOf(address)) + " is ready. GRANT " + kWriterRole +
         " TO whoever ships runs, and " + kReaderRole + " TO whoever reads them.";
}

}  // namespace mpnanny::team
