// The tables that an export writes: those of the monitor's schema, as SQLite itself tells them, so
// that a later schema adds its tables and columns by being there.
//
// Free functions; plain values.
#ifndef MPNANNY_ENGINES_EXPORT_TABLES_H_
#define MPNANNY_ENGINES_EXPORT_TABLES_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "engines/export/parquet_writer.h"

namespace mpnanny::exports {

struct Table {
  std::string name;
  std::vector<Column> columns;  // as in the database
  bool of_run = false;          // its rows belong to a run_id
  bool of_layer = false;        // they name a layer by its id, and are none themselves
};

// In the schema's order.
Result<std::vector<Table>> TablesOfSchema();

// Those of them that are named; all if none is. NotFound: no table is called so.
Result<std::vector<Table>> ChosenTables(const std::vector<std::string>& names);

}  // namespace mpnanny::exports

#endif  // MPNANNY_ENGINES_EXPORT_TABLES_H_
