// The tables of a team's database: what the monitor's schema has, and what makes one training of
// many ranks' files.
//
// They are derived from monitor/schema/*.sql, asked of SQLite at run time, so that a table or a
// column that comes there is one here, and a database that is set up again gets it. All stand in
// the schema "mpnanny":
//
//   version      one row: the layout's number. Readers and writers refuse another one.
//   training     one row a training, of one rank or a thousand.
//   part         one row a rank's file: which run of it, and how far each table was shipped.
//   step_all     one row a step, merged over the ranks as engines/runs/step_cursor.h merges.
//   run, layer, step, tensor_stats …  the monitor's, behind (training_id, rank). Partitioned by
//                training_id: a run goes by dropping its partitions (`part_12_step`).
//
// Plain values and free functions; SQLite is opened in memory once, and the answer is kept.
#ifndef MPNANNY_ENGINES_TEAM_LAYOUT_H_
#define MPNANNY_ENGINES_TEAM_LAYOUT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engines/team/connection.h"

namespace mpnanny::team {

inline constexpr int kLayoutVersion = 1;
inline constexpr char kWriterRole[] = "mpnanny_writer";
inline constexpr char kReaderRole[] = "mpnanny_reader";
// Where a table of SQLite has no key of its own its rowid is one, under this name.
inline constexpr char kRowColumn[] = "row_id";

enum class ColumnType { kInteger, kReal, kText, kBlob };
const char* ServerType(ColumnType type);  // "bigint"

struct Column {
  std::string name;
  ColumnType type = ColumnType::kInteger;
  bool required = false;  // NOT NULL
  std::string otherwise;  // DEFAULT, as SQL; "": none
};

struct Table {
  std::string name;
  std::vector<Column> columns;     // as SQLite has them, but for the rank, which stands in front
  std::vector<std::string> key;    // behind (training_id, rank): SQLite's without run_id
  std::vector<size_t> key_places;  // where in `columns`
  bool of_run = false;             // has run_id: a file's other runs have rows of their own
  bool own_row = false;            // its first column is kRowColumn
  bool changes = false;            // rows change in place after they were written
};

// All of the monitor's tables, `run` first, then by name.
Result<const std::vector<Table>*> MonitorTables();
const Table* FindTable(const std::vector<Table>& tables, std::string_view name);

// "step_12" in the schema: the partition of one training.
std::string PartitionOf(std::string_view table, int64_t training);

// The statements that make schema, tables and roles, or bring them up to date; each may run again
// and changes nothing then. For the database's owner.
Result<std::vector<std::string>> SetupStatements();

// Whether the database has this layout; the error of failure.h otherwise. One statement.
Result<void> CheckLayout(Connection& connection);

}  // namespace mpnanny::team

#endif  // MPNANNY_ENGINES_TEAM_LAYOUT_H_
