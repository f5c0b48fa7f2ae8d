#include "engines/team/snapshot.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "engines/team/dialect.h"
#include "engines/team/failure.h"
#include "engines/team/layout.h"
#include "engines/team/merged_rows.h"

namespace mpnanny::team {
namespace {

// A reader waits for no server longer than that to be let in, nor for an answer where its call has
// no deadline of its own.
constexpr std::chrono::seconds kConnectLimit{5}, kAnswerLimit{60};
// More than any reader takes of a text.
constexpr std::string_view kTextLimit = "300000";
// Without these no run can be read. A view of the same name is none of them: it would run whatever
// somebody wrote into it.
constexpr const char* kTables[] = {"training", "part",         "run",   "layer", "step",
                                   "step_all", "tensor_stats", "alert", "event", "meaning"};

}  // namespace

Result<std::unique_ptr<Snapshot>> Snapshot::Open(const Address& address,
                                                 const CancelToken& cancel) {
  Connection::Options options;
  options.application = "mpnanny";
  options.connect_limit = kConnectLimit;
  options.answer_limit = kAnswerLimit;
  options.read_only = true;
  auto connection = Connection::Open(address, cancel, options);
  if (!connection) return connection.error();
  std::unique_ptr<Snapshot> snapshot(new Snapshot(*std::move(connection)));
  MPN_TRY(snapshot->Begin());
  MPN_TRY(snapshot->ReadColumns());
  MPN_TRY(CheckLayout(*snapshot->connection_));
  for (const char* table : kTables) {
    if (snapshot->columns_.contains(table)) continue;
    return DataCorrupt(
        EscapeControl(UrlOf(address), 300) + " has no table mpnanny." + table + ".",
        "`mpnanny ship --setup URL`, run by the database's owner, makes what lacks.");
  }
  return snapshot;
}

Result<void> Snapshot::Begin() {
  MPN_TRY(connection_->Execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"));
  // Nobody's function stands before PostgreSQL's own, and none is run to choose rows. Questions are
  // short: to compile one, or to start workers for it, takes longer than it does. Who opens a
  // cursor reads to its end.
  MPN_TRY(
      connection_->Execute("SELECT pg_catalog.set_config('search_path', 'pg_catalog', true), "
                           "pg_catalog.set_config('row_security', 'off', true), "
                           "pg_catalog.set_config('jit', 'off', true), "
                           "pg_catalog.set_config('cursor_tuple_fraction', '1', true), "
                           "pg_catalog.set_config('max_parallel_workers_per_gather', '0', true), "
                           "pg_catalog.set_config('statement_timeout', $1, true)",
                           {std::to_string(limit_.count())}));
  return {};
}

void Snapshot::BeginAgain() {
  ++moment_;
  if (!connection_->alive()) return;
  if (connection_->Execute("ROLLBACK")) (void)Begin();
}

Result<void> Snapshot::ReadColumns() {
  // Views, foreign tables and the partitions themselves are none of the layout's tables.
  auto rows = connection_->Query(
      "SELECT c.relname, a.attname, t.typname FROM pg_catalog.pg_class c "
      "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
      "JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid "
      "JOIN pg_catalog.pg_type t ON t.oid = a.atttypid "
      "WHERE n.nspname = 'mpnanny' AND c.relkind IN ('r', 'p') AND NOT c.relispartition "
      "AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1, a.attnum LIMIT 5000");
  if (!rows) return rows.error();
  while (true) {
    MPN_TRY_ASSIGN(auto next, rows->Next());
    if (!next) break;
    columns_[rows->TextOr(0)][rows->TextOr(1)] = rows->TextOr(2);
  }
  if (!columns_.contains("version")) return WrongLayout(connection_->address(), -1);
  return {};
}

void Snapshot::Show(int64_t training, std::optional<int64_t> merged_to, bool all_merged) {
  training_ = training;
  merged_to_ = merged_to;
  all_merged_ = all_merged;
}

bool Snapshot::HasColumn(std::string_view table, std::string_view column) const {
  const auto found = columns_.find(table);
  return found != columns_.end() &&
         (column == "run_id" ? found->second.contains("rank")
                             : found->second.contains(std::string(column)));
}

void Snapshot::LimitTime(std::chrono::milliseconds limit) {
  limit_ = std::max(limit, std::chrono::milliseconds(1));
  // Where that fails, the next statement does as well and says why.
  (void)connection_->Execute("SELECT pg_catalog.set_config('statement_timeout', $1, true)",
                             {std::to_string(limit_.count())});
}

std::string Snapshot::RowsOf(std::string_view table) const {
  const auto found = columns_.find(table);
  if (found == columns_.end()) return "";
  std::string columns = "rank AS run_id";
  for (const auto& [name, type] : found->second) {
    const std::string quoted = Quoted(name);
    if (name == "training_id" || name == "run_id") continue;
    if (name == kRowColumn) columns += ", " + quoted + " AS rowid";
    // The run that this one resumes stands in that rank's file under a number of that file.
    if (table == "run" && name == "parent") {
      columns += ", NULL::bigint AS parent";
    } else if (type == "text") {
      columns += ", left(" + quoted + ", " + std::string(kTextLimit) + ") AS " + quoted + ", " +
                 quoted + " AS " + Quoted("raw_" + name);
    } else if (type == "bytea") {
      columns += ", substring(" + quoted + ", 1, " + std::string(kTextLimit) + ") AS " + quoted;
    } else {
      columns += ", " + quoted;
    }
  }
  std::string rows = "SELECT " + columns + " FROM mpnanny." + Quoted(table) +
                     " WHERE training_id = " + std::to_string(training_);
  if (table == "meaning") {
    rows += " AND rank = (SELECT min(rank) FROM mpnanny.part WHERE training_id = " +
            std::to_string(training_) + ")";
  }
  return rows;
}

Result<std::unique_ptr<Select>> Snapshot::Prepare(std::string_view sql) {
  const Statement statement = InServersWords(sql);
  std::string named;
  for (const std::string& table : statement.tables) {
    const std::string rows =
        table == "step_all" ? MergedRows(training_, merged_to_, all_merged_) : RowsOf(table);
    if (rows.empty()) continue;
    named += (named.empty() ? "WITH " : ", ") + table + " AS NOT MATERIALIZED (" + rows + ")";
  }
  return PrepareOfAll(named + " " + statement.sql);
}

Result<std::unique_ptr<Select>> Snapshot::PrepareOfAll(std::string sql) {
  const bool ordered = sql.find("ORDER BY") != std::string::npos;
  return std::unique_ptr<Select>(
      new Select(this, std::move(sql), ordered, "c" + std::to_string(++selects_)));
}

Result<std::string> Snapshot::PreparedAs(const std::string& sql) {
  const auto known = prepared_.find(sql);
  if (known != prepared_.end()) return known->second;
  const std::string name = "s" + std::to_string(prepared_.size());
  MPN_TRY(connection_->Prepare(name, sql));
  prepared_.emplace(sql, name);
  return name;
}

}  // namespace mpnanny::team
