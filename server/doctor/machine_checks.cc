#include "server/doctor/machine_checks.h"

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/files.h"
#include "base/text.h"
#include "engines/exported/worker.h"
#include "engines/python_code/child.h"
#include "engines/python_code/lacks.h"

namespace mpnanny {
namespace fs = std::filesystem;
namespace {

// As much as the monitor lets a database grow before it thins it.
constexpr uintmax_t kComfortableBytes = uintmax_t{2} << 30;

std::string Size(uintmax_t bytes) {
  const uintmax_t mib = bytes >> 20;
  return mib < 10240 ? std::to_string(mib) + " MiB" : std::to_string(mib >> 10) + " GiB";
}

Check CheckRoot(const std::string& root) {
  const std::string shown = EscapeControl(root);
  if (IsDatabaseUrl(root)) {
    return {CheckStatus::kOk, "root", shown + " is a database, asked when a call names it.",
            "list_runs with it tells whether it answers."};
  }
  std::error_code error;
  const fs::file_status status = fs::status(root, error);
  if (!fs::exists(status)) {
    return {CheckStatus::kFailed, "root",
            shown + (error && error != std::errc::no_such_file_or_directory
                         ? ": " + error.message() + "."
                         : " does not exist."),
            "Name a folder of the machine on which the server runs."};
  }
  if (!fs::is_directory(status)) {
    return {CheckStatus::kFailed, "root", shown + " is no folder.", "Name the folder around it."};
  }
  const fs::directory_iterator entries(root, error);
  if (error) {
    return {CheckStatus::kFailed, "root", shown + " cannot be read: " + error.message() + ".",
            "The server needs the right to list and read it, as the user who starts it."};
  }
  const fs::space_info space = fs::space(root, error);
  if (error) return {CheckStatus::kOk, "root", shown + " can be read.", ""};
  if (space.available < kComfortableBytes) {
    return {CheckStatus::kWarning, "root",
            shown + " has " + Size(space.available) + " left on its disk.",
            "The monitor's database grows to 2 GiB by default; free some, or set max_db_mb."};
  }
  return {CheckStatus::kOk, "root", shown + " can be read; " + Size(space.available) + " free.",
          ""};
}

}  // namespace

Checks CheckRoots(const std::vector<std::string>& roots) {
  Checks checks;
  for (const std::string& root : roots) checks.push_back(CheckRoot(root));
  return checks;
}

std::string SqliteVersion() { return sqlite3_libversion(); }

Check CheckSqlite() {
  sqlite3* opened = nullptr;
  int code = sqlite3_open_v2(":memory:", &opened, SQLITE_OPEN_READWRITE, nullptr);
  const std::unique_ptr<sqlite3, int (*)(sqlite3*)> database(opened, sqlite3_close);
  if (code == SQLITE_OK) {
    code = sqlite3_exec(database.get(), "CREATE VIRTUAL TABLE t USING fts5(a)", nullptr, nullptr,
                        nullptr);
  }
  const std::string version = "SQLite " + SqliteVersion();
  if (code == SQLITE_OK)
    return {CheckStatus::kOk, "sqlite", version + " with full-text search.", ""};
  return {CheckStatus::kFailed, "sqlite",
          version + ": " + (database ? sqlite3_errmsg(database.get()) : "does not open") + ".",
          "search_knowledge needs SQLite with FTS5."};
}

Check CheckSandbox(const std::string& program) {
  if (!kCanConfine) {
    return {CheckStatus::kOk, "sandbox",
            "Code of yours is not run on this system: auto_diff and choose_precision need Linux.",
            ""};
  }
  const auto lacks = python_code::FindLacks(program);
  if (!lacks) return {CheckStatus::kWarning, "sandbox", lacks.error().message, lacks.error().hint};
  if (lacks->empty()) {
    return {CheckStatus::kOk, "sandbox", "Code of yours can be confined wholly on this machine.",
            ""};
  }
  const Error refused = python_code::RefusedBecause("auto_diff's code", *lacks);
  return {CheckStatus::kWarning, "sandbox", python_code::LacksText(*lacks), refused.hint};
}

Check CheckWorker(const std::string& program) {
  const auto greeting = exported::GreetWorker(program);
  if (!greeting) {
    // A wheel has none: it would be bound to one torch. Models in Python need none either.
    return {CheckStatus::kOk, "worker",
            "Exported models (.pt2, TorchScript) cannot be compared: " + greeting.error().message,
            exported::kBuildIt};
  }
  const Json& torch = ValueAt(*greeting, {"torch"});
  return {CheckStatus::kOk, "worker",
          "mpnanny-worker runs exported models with torch " +
              (torch.is_string() ? EscapeControl(torch.get<std::string>(), 40) : "of no version") +
              ": those that this torch or an older one has saved.",
          ""};
}

}  // namespace mpnanny
