// What tests of the monitor's core look at: rows of a database, and the types of alerts.
#ifndef MPNANNY_TESTS_MONITOR_CORE_OBSERVED_H_
#define MPNANNY_TESTS_MONITOR_CORE_OBSERVED_H_

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <string>
#include <string_view>

#include "monitor/core/alert_conditions.h"

namespace mpnanny {

// All values of a query's first column, with `between` between them; "NULL" for NULL. What fails
// fails the test.
inline std::string AskAll(const std::string& path, const std::string& sql,
                          std::string_view between = " ") {
  sqlite3* connection = nullptr;
  EXPECT_EQ(sqlite3_open_v2(path.c_str(), &connection, SQLITE_OPEN_READWRITE, nullptr), SQLITE_OK);
  sqlite3_stmt* statement = nullptr;
  EXPECT_EQ(sqlite3_prepare_v2(connection, sql.c_str(), -1, &statement, nullptr), SQLITE_OK)
      << sqlite3_errmsg(connection);
  std::string text;
  while (sqlite3_step(statement) == SQLITE_ROW) {
    const auto* value = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    if (!text.empty()) text += between;
    text += value != nullptr ? value : "NULL";
  }
  sqlite3_finalize(statement);
  sqlite3_close(connection);
  return text;
}

// The types in `alerts`, with spaces between.
inline std::string Types(const Alerts& alerts) {
  std::string text;
  for (const AlertRow& alert : alerts) text += (text.empty() ? "" : " ") + std::string(NameOf(alert.type));
  return text;
}

}  // namespace mpnanny

#endif  // MPNANNY_TESTS_MONITOR_CORE_OBSERVED_H_
