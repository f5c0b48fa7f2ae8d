#include "engines/team/run_reader.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"

namespace mpnanny::team {
namespace {

// Behind the mark's step: rows come a step or two late, where a device's figures do.
constexpr int64_t kLateSteps = 64;

bool ByStep(const Table& table) { return !table.key.empty() && table.key.front() == "step"; }

// Its rows are read whole each time, and what is new or other is told by a hash.
bool IsSmall(const Table& table) { return table.changes && !ByStep(table); }

// Not in double quotes: where there is no such column SQLite would read them as a text.
std::string InFile(const std::string& name) { return "[" + name + "]"; }

std::string NameInFile(const Table& table, const std::string& column) {
  return table.own_row && column == kRowColumn ? "rowid" : InFile(column);
}

std::string KeyList(const Table& table) {
  std::vector<std::string> names;
  for (const std::string& name : table.key) names.push_back(NameInFile(table, name));
  return Join(names, ", ");
}

// "(step, layer_id) > (?2, ?3)"
std::string Compared(const Table& table, const char* how, int first) {
  std::vector<std::string> places;
  for (size_t i = 0; i < table.key.size(); ++i) {
    places.push_back("?" + std::to_string(first + static_cast<int>(i)));
  }
  return "(" + KeyList(table) + ")" + how + "(" + Join(places, ", ") + ")";
}

void BindKey(runs::Statement& statement, const Key& key, int first) {
  for (const auto& part : key) {
    if (const auto* integer = std::get_if<int64_t>(&part)) {
      statement.Bind(first++, *integer);
    } else {
      statement.Bind(first++, std::string_view(std::get<std::string>(part)));
    }
  }
}

uint64_t HashOf(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::string KeyBytes(const Key& key) {
  std::string text;
  for (const auto& part : key) {
    if (const auto* integer = std::get_if<int64_t>(&part)) text += std::to_string(*integer);
    if (const auto* word = std::get_if<std::string>(&part)) text += *word;
    text += '\0';
  }
  return text;
}

}  // namespace

// One table of a file within one snapshot, and the batch that is filled.
struct RunReader::Reading {
  const runs::Database& database;
  const Marks& before;
  Batch& batch;
  int64_t run_id, training, rank;

  bool full() const { return batch.bytes >= kBatchBytes; }

  bool Has(const Table& table) const {
    return database.HasColumn(InFile(table.name),
                              table.key.empty() ? "run_id" : NameInFile(table, table.key.front()));
  }

  // The rows of the run in the order of their key; `where` may hold ?2 and so on.
  Result<runs::Statement> Rows(const Table& table, const std::string& where) const {
    std::vector<std::string> columns;
    for (const Column& column : table.columns) {
      const std::string name = NameInFile(table, column.name);
      // An earlier monitor's file has not all of them.
      columns.push_back(database.HasColumn(InFile(table.name), name) ? name : "NULL");
    }
    std::string sql = "SELECT " + Join(columns, ", ") + " FROM " + InFile(table.name);
    sql += table.of_run ? " WHERE run_id=?1" : " WHERE ?1 IS NOT NULL";
    if (!where.empty()) sql += " AND " + where;
    if (!table.key.empty()) sql += " ORDER BY " + KeyList(table);
    MPN_TRY_ASSIGN(auto rows, database.Prepare(sql));
    rows.Bind(1, run_id);
    return rows;
  }

  Result<int64_t> Count(const Table& table, const std::string& where, const Key& key,
                        int64_t from) const {
    std::string sql = "SELECT count(*) FROM " + InFile(table.name);
    sql += table.of_run ? " WHERE run_id=?1" : " WHERE ?1 IS NOT NULL";
    if (!where.empty()) sql += " AND " + where;
    MPN_TRY_ASSIGN(auto rows, database.Prepare(sql));
    rows.Bind(1, run_id);
    if (!where.empty()) {
      rows.Bind(2, from);
      BindKey(rows, key, 3);
    }
    MPN_TRY_ASSIGN(auto next, rows.Next());
    return next ? rows.IntOr(0, 0) : 0;
  }

  Key KeyOf(const Table& table, const runs::Statement& row) const {
    Key key;
    for (const size_t place : table.key_places) {
      if (table.columns[place].type == ColumnType::kText) {
        key.emplace_back(row.TextOr(static_cast<int>(place)));
      } else {
        key.emplace_back(row.IntOr(static_cast<int>(place), 0));
      }
    }
    return key;
  }

  // What is not there though it has to be is nothing of its kind: the file may be any.
  static void AddValue(const Column& column, const runs::Statement& row, int place,
                       CopyBytes& bytes) {
    switch (column.type) {
      case ColumnType::kInteger:
        if (const auto value = row.Int(place)) return bytes.Add(*value);
        return column.required ? bytes.Add(0) : bytes.AddNull();
      case ColumnType::kReal:
        if (const auto value = row.Real(place)) return bytes.AddReal(*value);
        return column.required ? bytes.AddReal(0) : bytes.AddNull();
      case ColumnType::kText:
        if (const auto value = row.Text(place)) return bytes.AddText(*value);
        return column.required ? bytes.AddText("") : bytes.AddNull();
      case ColumnType::kBlob:
        if (const auto value = row.Blob(place)) return bytes.AddBlob(*value);
        return bytes.AddNull();
    }
  }

  void Add(const Table& table, const runs::Statement& row, CopyBytes& bytes) const {
    bytes.BeginRow(2 + static_cast<int>(table.columns.size()));
    bytes.Add(training);
    bytes.AddSmall(static_cast<int32_t>(rank));
    for (size_t i = 0; i < table.columns.size(); ++i) {
      AddValue(table.columns[i], row, static_cast<int>(i), bytes);
    }
  }

  void Close(Piece piece, CopyBytes& bytes) const {
    if (piece.count == 0) return;
    piece.rows = bytes.Take();
    batch.pieces.push_back(std::move(piece));
  }

  // The rows of the statement as one piece; the key of the last one, if there was any.
  Result<std::optional<Key>> Take(const Table& table, runs::Statement& rows, bool again) const {
    CopyBytes bytes;
    Piece piece{&table, "", 0, again, std::nullopt};
    std::optional<Key> last;
    const size_t began = batch.bytes;
    while (!full()) {
      MPN_TRY_ASSIGN(auto next, rows.Next());
      if (!next) break;
      Add(table, rows, bytes);
      batch.bytes = began + bytes.rows().size();
      ++piece.count;
      if (piece.count == 1 && ByStep(table)) {
        piece.first_step = std::get<int64_t>(KeyOf(table, rows).front());
      }
      last = KeyOf(table, rows);
    }
    batch.more = batch.more || full();
    Close(std::move(piece), bytes);
    return last;
  }
};

// A small table: rows that are new or have changed since they were sent.
Result<void> RunReader::ReadChanged(Reading& reading, const Table& table) {
  const auto before = reading.before.find(table.name);
  const bool first = before == reading.before.end();
  const auto& known = hashes_[table.name];
  MPN_TRY_ASSIGN(auto rows, reading.Rows(table, ""));
  CopyBytes bytes;
  Piece piece{&table, "", 0, !first, std::nullopt};
  Mark mark = first ? Mark{} : before->second;
  const size_t began = reading.batch.bytes;
  while (!reading.full()) {
    MPN_TRY_ASSIGN(auto next, rows.Next());
    if (!next) break;
    CopyBytes one;
    reading.Add(table, rows, one);
    const Key key = reading.KeyOf(table, rows);
    const std::string name = KeyBytes(key);
    const uint64_t hash = HashOf(one.rows());
    const auto found = known.find(name);
    if (found != known.end() && found->second == hash) continue;
    bytes.Append(one.rows());
    reading.batch.bytes = began + bytes.rows().size();
    reading.batch.hashes.push_back({table.name, name, hash});
    ++piece.count;
    if (mark.key < key) mark.key = key;
  }
  if (first) mark.rows = piece.count;
  if (piece.count > 0) reading.batch.marks[table.name] = std::move(mark);
  reading.batch.more = reading.batch.more || reading.full();
  reading.Close(std::move(piece), bytes);
  return {};
}

// Rows that came behind the mark since it was set.
Result<void> RunReader::ReadLate(Reading& reading, const Table& table) {
  const auto window = windows_.find(table.name);
  const auto mark = reading.before.find(table.name);
  if (window == windows_.end() || mark == reading.before.end()) return {};
  if (window->second.end != mark->second.key) return {};
  const int64_t from = FirstOf(mark->second).value_or(0) - kLateSteps;
  const std::string where = "step>=?2 AND " + Compared(table, "<=", 3);
  MPN_TRY_ASSIGN(const int64_t rows, reading.Count(table, where, mark->second.key, from));
  if (rows <= window->second.rows) return {};
  MPN_TRY_ASSIGN(auto late, reading.Rows(table, where));
  late.Bind(2, from);
  BindKey(late, mark->second.key, 3);
  MPN_TRY(reading.Take(table, late, true));
  // Where there was more than a batch holds the count at the end finds the rest.
  reading.batch.windows[table.name] = {mark->second.key, rows};
  return {};
}

Result<void> RunReader::ReadNew(Reading& reading, const Table& table) {
  const auto before = reading.before.find(table.name);
  const bool first = before == reading.before.end() || before->second.key.empty();
  MPN_TRY_ASSIGN(auto rows, reading.Rows(table, first ? "" : Compared(table, ">", 2)));
  if (!first) BindKey(rows, before->second.key, 2);
  const size_t pieces = reading.batch.pieces.size();
  MPN_TRY_ASSIGN(auto last, reading.Take(table, rows, false));
  if (!last) return {};
  Mark& mark = reading.batch.marks[table.name];
  mark.key = *last;
  for (size_t i = pieces; i < reading.batch.pieces.size(); ++i) {
    mark.rows += reading.batch.pieces[i].count;
  }
  if (!ByStep(table)) return {};
  MPN_TRY_ASSIGN(const int64_t counted,
                 reading.Count(table, "step>=?2 AND " + Compared(table, "<=", 3), mark.key,
                               FirstOf(mark).value_or(0) - kLateSteps));
  reading.batch.windows[table.name] = {mark.key, counted};
  return {};
}

Result<void> RunReader::ReadSweep(Reading& reading, const Table& table) {
  const auto sweep = sweeps_.find(table.name);
  if (sweep == sweeps_.end() || reading.full()) return {};
  const bool first = sweep->second.empty();
  MPN_TRY_ASSIGN(auto rows, reading.Rows(table, first ? "" : Compared(table, ">", 2)));
  if (!first) BindKey(rows, sweep->second, 2);
  MPN_TRY_ASSIGN(auto last, reading.Take(table, rows, true));
  reading.batch.sweeps[table.name] = reading.full() ? last : std::nullopt;
  return {};
}

Result<Batch> RunReader::Read(const Marks& marks, const CancelToken& cancel) {
  MPN_TRY_ASSIGN(const std::vector<Table>* tables, MonitorTables());
  MPN_TRY_ASSIGN(auto database, runs::Database::Open(path_, cancel));
  Batch batch;
  batch.marks = marks;
  Reading reading{*database, marks, batch, run_id_, training_, rank_};
  for (const Table& table : *tables) {
    if (reading.full()) break;
    if (!reading.Has(table)) continue;
    if (IsSmall(table)) {
      MPN_TRY(ReadChanged(reading, table));
      continue;
    }
    if (ByStep(table)) MPN_TRY(ReadLate(reading, table));
    MPN_TRY(ReadSweep(reading, table));
    if (!reading.full()) MPN_TRY(ReadNew(reading, table));
  }
  return batch;
}

Result<void> RunReader::SweepMissed(const Marks& marks, bool thinned, const CancelToken& cancel) {
  MPN_TRY_ASSIGN(const std::vector<Table>* tables, MonitorTables());
  MPN_TRY_ASSIGN(auto database, runs::Database::Open(path_, cancel));
  Batch none;
  const Reading reading{*database, marks, none, run_id_, training_, rank_};
  for (const Table& table : *tables) {
    const auto mark = marks.find(table.name);
    if (IsSmall(table) || mark == marks.end() || !reading.Has(table)) continue;
    if (thinned && table.name == "tensor_stats") continue;
    MPN_TRY_ASSIGN(const int64_t rows, reading.Count(table, "", {}, 0));
    if (table.changes || rows != mark->second.rows) sweeps_[table.name] = {};
  }
  return {};
}

void RunReader::Committed(const Batch& batch) {
  for (const Batch::RowHash& row : batch.hashes) hashes_[row.table][row.key] = row.hash;
  for (const auto& [table, window] : batch.windows) windows_[table] = window;
  for (const auto& [table, far] : batch.sweeps) {
    if (far) {
      sweeps_[table] = *far;
    } else {
      sweeps_.erase(table);
    }
  }
}

}  // namespace mpnanny::team
