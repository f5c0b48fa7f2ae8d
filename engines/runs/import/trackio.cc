// trackio's database of one project: a row of `metrics` a step, with its numbers as a JSON object;
// runs by their id, and their settings in `configs`.
#include <algorithm>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "engines/runs/import/foreign_database.h"
#include "engines/runs/import/format.h"
#include "engines/runs/import/loose_json.h"
#include "engines/runs/import/series.h"
#include "engines/runs/import/text_log.h"
#include "engines/runs/show.h"

namespace mpnanny::imports {
namespace {

constexpr size_t kMostRuns = 20;

bool Holds(const runs::Database& database) {
  return database.HasColumn("metrics", "run_name") && database.HasColumn("metrics", "metrics") &&
         database.HasColumn("metrics", "step");
}

struct RunOfProject {
  std::string id, name;
};

// By when each began; `column`: what tells runs apart (files of before 2026 know names alone).
Result<std::vector<RunOfProject>> RunsOf(const runs::Database& database,
                                         const std::string& column) {
  MPN_TRY_ASSIGN(auto rows, database.Prepare("SELECT " + column +
                                             ", max(run_name) FROM metrics"
                                             " GROUP BY 1 ORDER BY min(id)"));
  std::vector<RunOfProject> found;
  while (true) {
    MPN_TRY_ASSIGN(const bool more, rows.Next());
    if (!more) return found;
    found.push_back({TextOrBytes(rows, 0), TextOrBytes(rows, 1)});
  }
}

// "fp16" or "bf16" if the run's settings say so.
Result<std::string> PrecisionOfConfig(const runs::Database& database, const std::string& column,
                                      const std::string& id) {
  MPN_TRY_ASSIGN(auto rows,
                 database.Prepare("SELECT config FROM configs WHERE " + column + "=?1 LIMIT 1"));
  rows.Bind(1, std::string_view(id));
  MPN_TRY_ASSIGN(const bool more, rows.Next());
  std::string precision;
  if (!more) return precision;
  ReadLooseJson(TextOrBytes(rows, 0),
                {[&](const LooseValue& value) {
                   const std::string key = LowerCase(JoinPath(value.path));
                   if (!value.text || (key != "precision" && key != "mixed_precision" &&
                                       key != "dtype" && key != "torch_dtype")) {
                     return;
                   }
                   if (precision.empty()) precision = PrecisionOf("precision " + *value.text);
                 },
                 {}});
  return precision;
}

Result<int64_t> ReadRun(const runs::Database& database, const std::string& column,
                        const std::string& id, Import& into) {
  MPN_TRY_ASSIGN(auto rows, database.Prepare("SELECT step, metrics, unixepoch(timestamp) FROM"
                                             " metrics WHERE " +
                                             column + "=?1 ORDER BY id"));
  rows.Bind(1, std::string_view(id));
  Series series(into);
  int64_t read = 0;
  while (true) {
    MPN_TRY_ASSIGN(const bool more, rows.Next());
    if (!more) break;
    if (++read % 1024 == 0) MPN_TRY(into.recorder.cancel().Check());
    const auto step = rows.Int(0);
    if (!step) continue;
    const auto at = rows.Real(2);
    ReadLooseJson(TextOrBytes(rows, 1), {[&](const LooseValue& value) {
                                           if (value.number)
                                             series.Add(JoinPath(value.path), *step, *value.number,
                                                        at);
                                         },
                                         {}});
  }
  series.Finish();
  return read;
}

Result<void> Read(const std::vector<std::string>& files, Import& into) {
  MPN_TRY_ASSIGN(auto database, runs::Database::OpenOther(files.front(), into.recorder.cancel()));
  const std::string column = database->HasColumn("metrics", "run_id") ? "run_id" : "run_name";
  MPN_TRY_ASSIGN(auto found, RunsOf(*database, column));
  if (found.empty()) {
    into.counts = "no row";
    return {};
  }
  if (found.size() > kMostRuns) {
    into.notes.push_back("Of " + runs::Count(static_cast<int64_t>(found.size()), "run") +
                         " the newest " + std::to_string(kMostRuns) + " were read.");
    found.erase(found.begin(), found.end() - kMostRuns);
  }
  std::vector<std::string> others;
  for (size_t i = 0; i < found.size(); ++i) {
    const bool newest = i + 1 == found.size();
    const size_t noted = into.notes.size();
    MPN_TRY_ASSIGN(const int64_t rows, ReadRun(*database, column, found[i].id, into));
    if (newest) {
      into.name = found[i].name;
      into.counts = runs::Count(rows, "row");
      MPN_TRY_ASSIGN(into.precision, PrecisionOfConfig(*database, column, found[i].id));
      break;
    }
    into.notes.resize(noted);  // what was read of the newest is told
    const int64_t id = into.recorder.KeepAsRun(found[i].name);
    others.push_back("\"" + EscapeControl(found[i].name, 60) + "\" is #" + std::to_string(id));
  }
  if (!others.empty()) {
    into.notes.push_back("The project holds " +
                         runs::Count(static_cast<int64_t>(found.size()), "run") + ": \"" +
                         EscapeControl(into.name, 60) + "\", the newest, was read; " +
                         Join(others, ", ") + " of this path.");
  }
  return {};
}

}  // namespace

const Format kTrackio{"trackio database", NeverFits, nullptr, Read, Holds};

}  // namespace mpnanny::imports
