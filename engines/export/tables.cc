#include "engines/export/tables.h"

#include <sqlite3.h>

#include <algorithm>
#include <memory>
#include <span>

#include "base/data_files.h"
#include "base/text.h"

namespace mpnanny {
std::span<const EmbeddedFile> EmbeddedSchema();  // generated from monitor/schema/*.sql
}

namespace mpnanny::exports {
namespace {

struct Close {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

ColumnType TypeOf(const std::string& declared) {
  if (declared == "INTEGER" || declared == "INT") return ColumnType::kInteger;
  if (declared == "REAL") return ColumnType::kReal;
  return declared == "BLOB" ? ColumnType::kBlob : ColumnType::kText;
}

}  // namespace

Result<std::vector<Table>> TablesOfSchema() {
  sqlite3* opened = nullptr;
  const int code = sqlite3_open(":memory:", &opened);
  const std::unique_ptr<sqlite3, Close> database(opened);
  const auto failure = [&] {
    return Internal(std::string("The monitor's schema: ") + sqlite3_errmsg(database.get()));
  };
  if (code != SQLITE_OK) return failure();
  for (const EmbeddedFile& file : EmbeddedSchema()) {
    const std::string sql(file.text);
    if (sqlite3_exec(database.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
      return failure();
    }
  }
  sqlite3_stmt* prepared = nullptr;
  if (sqlite3_prepare_v2(database.get(),
                         "SELECT t.name, c.name, c.type FROM sqlite_schema t, "
                         "pragma_table_info(t.name) c WHERE t.type='table' ORDER BY t.rowid, c.cid",
                         -1, &prepared, nullptr) != SQLITE_OK) {
    return failure();
  }
  const std::unique_ptr<sqlite3_stmt, Close> row(prepared);
  const auto text = [&](int column) {
    return std::string(reinterpret_cast<const char*>(sqlite3_column_text(row.get(), column)));
  };
  std::vector<Table> tables;
  while (sqlite3_step(row.get()) == SQLITE_ROW) {
    if (tables.empty() || tables.back().name != text(0)) {
      tables.emplace_back();
      tables.back().name = text(0);
    }
    Table& table = tables.back();
    table.columns.push_back({text(1), TypeOf(text(2))});
    if (text(1) == "run_id") table.of_run = true;
    if (text(1) == "layer_id") table.of_layer = table.name != "layer";
  }
  return tables;
}

Result<std::vector<Table>> ChosenTables(const std::vector<std::string>& names) {
  MPN_TRY_ASSIGN(auto all, TablesOfSchema());
  if (names.empty()) return all;
  std::vector<std::string> known;
  for (const Table& table : all) known.push_back(table.name);
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return NoSuchName("table", name, known);
    }
  }
  std::erase_if(all, [&](const Table& table) {
    return std::find(names.begin(), names.end(), table.name) == names.end();
  });
  return all;
}

}  // namespace mpnanny::exports
