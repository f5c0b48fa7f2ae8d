// Runs as Parquet, for those who ask their own questions: one file a table of the monitor's schema,
// in which all runs that are named stand together, with the run and the rank in front of each row.
//
// A command only, since it writes: no client can reach it. The files (mode 0600) come to their
// place when all of them are whole. The runs' own files are read as every tool reads them, and not
// touched.
#ifndef MPNANNY_ENGINES_EXPORT_EXPORT_H_
#define MPNANNY_ENGINES_EXPORT_EXPORT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/files.h"
#include "base/result.h"

namespace mpnanny::exports {

struct ExportOptions {
  std::vector<std::string> runs;         // handles, databases, folders: engines/export/parts.h
  std::string output = {};               // the folder
  std::vector<std::string> tables = {};  // empty: all
  std::string duckdb = {};               // DuckDB's C library, or its folder; "": it is looked for
  bool force = false;                    // the folder may hold files; those of tables are replaced
  std::function<void(double, std::optional<double>, const std::string&)> progress = {};
};

struct ExportedTable {
  std::string name;
  int64_t rows = 0, bytes = 0;
};

struct ExportReport {
  std::string output;  // escaped
  std::string duckdb;  // its version
  std::vector<std::string> runs;
  int64_t ranks = 0;  // databases' runs that were read
  std::vector<ExportedTable> tables;
  std::vector<std::string> notes;
};

Result<ExportReport> Export(const ExportOptions& options, const AllowedRoots& roots,
                            const CancelToken& cancel);

}  // namespace mpnanny::exports

#endif  // MPNANNY_ENGINES_EXPORT_EXPORT_H_
