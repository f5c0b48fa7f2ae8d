#include "tools/list_runs/listing.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "base/text.h"
#include "tools/runs/steps.h"

namespace mpnanny::list_runs {
namespace {

constexpr size_t kMaxNotes = 10;

Result<std::optional<double>> LastLoss(const runs::Database& database, int64_t run_id) {
  // Backwards along the key; a run whose last steps log no loss costs a few rows, one without any
  // ends at the limit.
  auto row = database.Prepare(
      "SELECT loss, flags & 3 FROM (SELECT loss, flags, step FROM step WHERE run_id=?1 "
      "ORDER BY step DESC LIMIT 10000) WHERE loss IS NOT NULL OR flags & 3 "
      "ORDER BY step DESC LIMIT 1");
  if (!row) return row.error();
  row->Bind(1, run_id);
  auto next = row->Next();
  if (!next) return next.error();
  if (!*next) return std::optional<double>();
  if (row->IntOr(1, 0) & runs::kLossNan)
    return std::optional(std::numeric_limits<double>::quiet_NaN());
  if (row->IntOr(1, 0) & runs::kLossInf)
    return std::optional(std::numeric_limits<double>::infinity());
  return row->Real(0);
}

Result<ListedRun> Describe(const runs::Database& database, const runs::Ring& ring, runs::Run run) {
  const int64_t id = *run.handle.run_id;
  ListedRun listed;
  auto count = database.Prepare("SELECT count(*), max(step) FROM step WHERE run_id=?1");
  if (!count) return count.error();
  count->Bind(1, id);
  if (auto next = count->Next(); !next) return next.error();
  listed.steps = count->IntOr(0, 0);
  const auto last_step = count->Int(1);
  auto loss = LastLoss(database, id);
  if (!loss) return loss.error();
  listed.last_loss = *loss;
  if (ring.present && ring.run_id == id && ring.run_started_at == run.started_at) {
    for (const RingStep& slot : ring.steps) {
      if (last_step && slot.step <= *last_step) continue;
      ++listed.steps;
      if (slot.known & kKnownLoss) listed.last_loss = slot.loss;
    }
  }
  auto alert = database.Prepare(
      "SELECT severity, type, step FROM alert WHERE run_id=?1 AND severity=?2 "
      "ORDER BY step, alert_id LIMIT 1");
  if (!alert) return alert.error();
  for (const char* severity : {"ERROR", "WARNING", "INFO"}) {
    alert->Bind(1, id).Bind(2, std::string_view(severity));
    auto next = alert->Next();
    if (!next) return next.error();
    if (*next) {
      listed.worst_severity = alert->TextOr(0);
      listed.worst_type = alert->TextOr(1);
      listed.worst_step = alert->Int(2);
      break;
    }
    alert->Reset();
  }
  listed.run = std::move(run);
  return listed;
}

Result<void> AddFile(const std::string& path, const CancelToken& cancel, Listing& listing) {
  auto database = runs::Database::Open(path, cancel);
  if (!database) return database.error();
  const runs::Ring ring = runs::ReadRing(path);
  auto found = runs::ReadRuns(**database, ring);
  if (!found) return found.error();
  std::vector<ListedRun> listed;
  for (runs::Run& run : *found) {
    auto described = Describe(**database, ring, std::move(run));
    if (!described) return described.error();
    listed.push_back(*std::move(described));
  }
  ++listing.databases;
  listing.runs.insert(listing.runs.end(), std::make_move_iterator(listed.begin()),
                      std::make_move_iterator(listed.end()));
  return {};
}

}  // namespace

Result<Listing> ListRuns(const std::string& path, const AllowedRoots& roots,
                         const CancelToken& cancel) {
  // A handle is taken as well: its file's runs are what is asked for.
  std::string start = path;
  if (!roots.Resolve(start)) {
    if (const RunHandle handle = ParseRunHandle(path); handle.run_id) start = handle.path;
  }
  auto files = runs::FindDatabases(start, roots, cancel);
  if (!files) return files.error();
  std::error_code ec;
  const bool folder = std::filesystem::is_directory(*roots.Resolve(start), ec);
  Listing listing;
  listing.notes = files->notes;
  size_t unnoted = 0;
  for (const std::string& file : files->paths) {
    if (auto check = cancel.Check(); !check) return check.error();
    auto added = AddFile(file, cancel, listing);
    if (added) continue;
    const ErrorKind kind = added.error().kind;
    if (!folder || kind == ErrorKind::kCancelled || kind == ErrorKind::kDeadlineExceeded) {
      return added.error();
    }
    if (kind == ErrorKind::kInvalidInput) continue;  // another program's database
    if (listing.notes.size() < kMaxNotes) {
      listing.notes.push_back(added.error().Text());
    } else {
      ++unnoted;
    }
  }
  if (unnoted > 0) {
    listing.notes.push_back(std::to_string(unnoted) + " more files could not be read.");
  }
  std::stable_sort(
      listing.runs.begin(), listing.runs.end(),
      [](const ListedRun& a, const ListedRun& b) { return a.run.started_at > b.run.started_at; });
  return listing;
}

}  // namespace mpnanny::list_runs
