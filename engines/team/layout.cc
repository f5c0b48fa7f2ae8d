#include "engines/team/layout.h"

#include <sqlite3.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <span>

#include "base/data_files.h"
#include "engines/team/failure.h"

namespace mpnanny {
std::span<const EmbeddedFile> EmbeddedSchema();  // generated from monitor/schema/*.sql
}

namespace mpnanny::team {
namespace {

struct CloseSqlite {
  void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Sqlite = std::unique_ptr<sqlite3, CloseSqlite>;
using SqliteRows = std::unique_ptr<sqlite3_stmt, CloseSqlite>;

Error SchemaFailure(sqlite3* handle) {
  return Internal(std::string("the monitor's schema: ") + sqlite3_errmsg(handle));
}

Result<SqliteRows> Ask(sqlite3* handle, const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) {
    return SchemaFailure(handle);
  }
  return SqliteRows(statement);
}

std::string TextAt(sqlite3_stmt* row, int column) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
  return text != nullptr ? text : "";
}

ColumnType TypeOf(const std::string& declared) {
  if (declared.starts_with("INT")) return ColumnType::kInteger;
  if (declared == "REAL") return ColumnType::kReal;
  return declared == "BLOB" ? ColumnType::kBlob : ColumnType::kText;
}

Result<Table> ReadTable(sqlite3* handle, const std::string& name) {
  Table table;
  table.name = name;
  std::vector<std::pair<int, std::string>> key;
  MPN_TRY_ASSIGN(auto rows, Ask(handle, "PRAGMA table_info(" + Quoted(name) + ")"));
  while (sqlite3_step(rows.get()) == SQLITE_ROW) {
    Column column;
    column.name = TextAt(rows.get(), 1);
    column.type = TypeOf(TextAt(rows.get(), 2));
    column.required = sqlite3_column_int(rows.get(), 3) != 0;
    column.otherwise = TextAt(rows.get(), 4);
    const int in_key = sqlite3_column_int(rows.get(), 5);
    if (in_key > 0) key.emplace_back(in_key, column.name);
    table.of_run = table.of_run || column.name == "run_id";
    if (column.name != "rank") table.columns.push_back(std::move(column));
  }
  if (table.columns.empty()) return SchemaFailure(handle);
  std::sort(key.begin(), key.end());
  for (auto& [place, column] : key) {
    if (column != "run_id") table.key.push_back(std::move(column));
  }
  if (key.empty()) {
    table.own_row = true;
    table.columns.insert(table.columns.begin(), {kRowColumn, ColumnType::kInteger, true, ""});
    table.key = {kRowColumn};
  }
  for (const std::string& part : table.key) {
    const auto at = std::find_if(table.columns.begin(), table.columns.end(),
                                 [&](const Column& column) { return column.name == part; });
    table.key_places.push_back(static_cast<size_t>(at - table.columns.begin()));
  }
  // What is no list of steps or of happenings changes in place: an alert goes on, a run ends, a
  // layer gets its position. A shadow step that runs again takes the first one's place.
  const bool by_step = !table.key.empty() && table.key.front() == "step";
  table.changes = (!by_step && !table.own_row) || name.starts_with("shadow_");
  return table;
}

Result<std::vector<Table>> ReadTables() {
  sqlite3* opened = nullptr;
  const int code =
      sqlite3_open_v2(":memory:", &opened,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX, nullptr);
  const Sqlite handle(opened);
  if (code != SQLITE_OK) return SchemaFailure(opened);
  for (const EmbeddedFile& file : EmbeddedSchema()) {
    if (sqlite3_exec(opened, std::string(file.text).c_str(), nullptr, nullptr, nullptr) !=
        SQLITE_OK) {
      return SchemaFailure(opened);
    }
  }
  std::vector<Table> tables;
  MPN_TRY_ASSIGN(auto names, Ask(opened,
                                 "SELECT name FROM sqlite_schema WHERE type='table' AND name NOT "
                                 "LIKE 'sqlite_%' ORDER BY name<>'run', name"));
  while (sqlite3_step(names.get()) == SQLITE_ROW) {
    MPN_TRY_ASSIGN(auto table, ReadTable(opened, TextAt(names.get(), 0)));
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace

const char* ServerType(ColumnType type) {
  switch (type) {
    case ColumnType::kInteger:
      return "bigint";
    case ColumnType::kReal:
      return "double precision";
    case ColumnType::kText:
      return "text";
    case ColumnType::kBlob:
      return "bytea";
  }
  return "text";
}

Result<const std::vector<Table>*> MonitorTables() {
  static const Result<std::vector<Table>> tables = ReadTables();
  if (!tables) return tables.error();
  return &*tables;
}

const Table* FindTable(const std::vector<Table>& tables, std::string_view name) {
  const auto found = std::find_if(tables.begin(), tables.end(),
                                  [&](const Table& table) { return table.name == name; });
  return found == tables.end() ? nullptr : &*found;
}

std::string PartitionOf(std::string_view table, int64_t training) {
  return std::string(table) + "_" + std::to_string(training);
}

Result<void> CheckLayout(Connection& connection) {
  auto rows = connection.Query("SELECT version FROM mpnanny.version");
  if (!rows) return rows.error();
  auto next = rows->Next();
  if (!next) return next.error();  // no such table: WrongLayout's words
  const int64_t found = *next ? rows->IntOr(0, -1) : -1;
  if (found != kLayoutVersion) {
    return WrongLayout(connection.address(), static_cast<int>(found));
  }
  return {};
}

}  // namespace mpnanny::team
