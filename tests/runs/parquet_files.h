// Parquet files for the tests of an export: read back by DuckDB where its library is here.
#ifndef MPNANNY_TESTS_RUNS_PARQUET_FILES_H_
#define MPNANNY_TESTS_RUNS_PARQUET_FILES_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engines/export/export.h"
#include "engines/export/parquet_writer.h"
#include "tests/runs/recording.h"

namespace mpnanny::test {

using Rows = std::vector<std::vector<std::string>>;

// Every test of it is skipped, with the reason, where DuckDB's library is not.
class ParquetTest : public ::testing::Test {
 protected:
  void SetUp() override;

  Result<exports::ExportReport> Export(exports::ExportOptions options);
  // Must succeed.
  exports::ExportReport Exported(exports::ExportOptions options);

  // The answer to a query, a cell as DuckDB writes it in CSV.
  Rows Ask(const std::string& sql);
  std::string Parquet(const std::string& table, const std::string& folder = "out") const {
    return "'" + folder_.File(folder) + "/" + table + ".parquet'";
  }
  // Rows of a table in a database and in the exported file, sorted. A cell is text that is the same
  // for both: numbers as "%.17g", texts and blobs as hexadecimal digits, NULL as "-".
  Rows OfDatabase(const std::string& path, const std::string& table);
  Rows OfFile(const std::string& table, const std::string& database, const std::string& where = "");
  // The tables of a database.
  std::vector<std::string> TablesOf(const std::string& path);
  // What lies in a folder, sorted.
  std::vector<std::string> Listed(const std::string& folder) const;

  TempFolder folder_;
};

}  // namespace mpnanny::test

#endif  // MPNANNY_TESTS_RUNS_PARQUET_FILES_H_
