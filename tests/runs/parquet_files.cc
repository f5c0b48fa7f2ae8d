#include "tests/runs/parquet_files.h"

#include <sqlite3.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

namespace mpnanny::test {
namespace fs = std::filesystem;
namespace {

struct Close {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

// A database of a test, asked as it stands.
class Asked {
 public:
  explicit Asked(const std::string& path) {
    sqlite3* opened = nullptr;
    EXPECT_EQ(sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
    database_.reset(opened);
  }
  std::unique_ptr<sqlite3_stmt, Close> Prepare(const std::string& sql) {
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(database_.get(), sql.c_str(), -1, &statement, nullptr), SQLITE_OK)
        << sql << ": " << sqlite3_errmsg(database_.get());
    return std::unique_ptr<sqlite3_stmt, Close>(statement);
  }

 private:
  std::unique_ptr<sqlite3, Close> database_;
};

std::string Number(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.17g", value);
  return text;
}

std::string Hex(const void* bytes, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02X", static_cast<const unsigned char*>(bytes)[i]);
    out += digits;
  }
  return out;
}

struct ReadColumn {
  std::string name, type;  // as SQLite declares it
};

std::vector<ReadColumn> ColumnsOf(const std::string& path, const std::string& table) {
  Asked asked(path);
  const auto row = asked.Prepare("SELECT name, type FROM pragma_table_info('" + table + "')");
  std::vector<ReadColumn> columns;
  while (sqlite3_step(row.get()) == SQLITE_ROW) {
    columns.push_back({reinterpret_cast<const char*>(sqlite3_column_text(row.get(), 0)),
                       reinterpret_cast<const char*>(sqlite3_column_text(row.get(), 1))});
  }
  return columns;
}

// Fields of a line in which only those with a comma or a quote are quoted.
std::vector<std::string> Fields(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

}  // namespace

void ParquetTest::SetUp() {
  if (const auto calls = exports::DuckdbCalls::Find(""); !calls) {
    GTEST_SKIP() << calls.error().Text();
  }
}

Result<exports::ExportReport> ParquetTest::Export(exports::ExportOptions options) {
  for (std::string& run : options.runs) run = folder_.File(run);
  if (options.output.empty()) options.output = "out";
  options.output = folder_.File(options.output);
  return exports::Export(options, AllowedRoots::Unrestricted(), {});
}

exports::ExportReport ParquetTest::Exported(exports::ExportOptions options) {
  auto report = Export(std::move(options));
  EXPECT_TRUE(report) << (report ? "" : report.error().Text());
  return report ? *report : exports::ExportReport{};
}

Rows ParquetTest::Ask(const std::string& sql) {
  auto calls = exports::DuckdbCalls::Find("");
  const TempFolder scratch;
  auto duckdb = exports::ParquetWriter::Open(*std::move(calls), scratch.File("spilled"));
  EXPECT_TRUE(duckdb) << (duckdb ? "" : duckdb.error().Text());
  if (!duckdb) return {};
  const std::string file = scratch.File("answer.csv");
  const auto done =
      duckdb->Execute("COPY (" + sql + ") TO '" + file + "' (FORMAT csv, HEADER false)");
  EXPECT_TRUE(done) << sql << "\n" << (done ? "" : done.error().Text());
  Rows rows;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) rows.push_back(Fields(line));
  return rows;
}

Rows ParquetTest::OfDatabase(const std::string& path, const std::string& table) {
  std::vector<std::string> names;
  for (const ReadColumn& column : ColumnsOf(folder_.File(path), table))
    names.push_back(column.name);
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  Asked asked(folder_.File(path));
  const auto row = asked.Prepare("SELECT " + list + " FROM " + table);
  Rows rows;
  while (sqlite3_step(row.get()) == SQLITE_ROW) {
    rows.emplace_back();
    for (int i = 0; i < static_cast<int>(names.size()); ++i) {
      switch (sqlite3_column_type(row.get(), i)) {
        case SQLITE_INTEGER:
          rows.back().push_back(std::to_string(sqlite3_column_int64(row.get(), i)));
          break;
        case SQLITE_FLOAT:
          rows.back().push_back(Number(sqlite3_column_double(row.get(), i)));
          break;
        case SQLITE_NULL:
          rows.back().push_back("-");
          break;
        default: {
          const void* const bytes = sqlite3_column_blob(row.get(), i);
          rows.back().push_back(Hex(bytes, sqlite3_column_bytes(row.get(), i)));
        }
      }
    }
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

Rows ParquetTest::OfFile(const std::string& table, const std::string& database,
                         const std::string& where) {
  const std::vector<ReadColumn> columns = ColumnsOf(folder_.File(database), table);
  std::string list;
  for (const ReadColumn& column : columns) {
    const std::string name = "\"" + column.name + "\"";
    const std::string shown = column.type == "TEXT"   ? "hex(encode(" + name + "))"
                              : column.type == "BLOB" ? "hex(" + name + ")"
                                                      : "CAST(" + name + " AS VARCHAR)";
    list += (list.empty() ? "" : ", ") + ("coalesce(" + shown + ", '-')");
  }
  Rows rows = Ask("SELECT " + list + " FROM " + Parquet(table) + where);
  for (std::vector<std::string>& row : rows) {
    EXPECT_EQ(row.size(), columns.size());
    for (size_t i = 0; i < row.size() && i < columns.size(); ++i) {
      if (columns[i].type == "REAL" && row[i] != "-") {
        row[i] = Number(std::strtod(row[i].c_str(), nullptr));
      }
    }
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

std::vector<std::string> ParquetTest::TablesOf(const std::string& path) {
  Asked asked(folder_.File(path));
  const auto row = asked.Prepare("SELECT name FROM sqlite_schema WHERE type='table'");
  std::vector<std::string> names;
  while (sqlite3_step(row.get()) == SQLITE_ROW) {
    names.push_back(reinterpret_cast<const char*>(sqlite3_column_text(row.get(), 0)));
  }
  return names;
}

std::vector<std::string> ParquetTest::Listed(const std::string& folder) const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_.File(folder))) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace mpnanny::test
