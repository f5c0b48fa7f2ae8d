#include "tools/list_runs/listing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string_view>

#include "base/text.h"
#include "engines/runs/alerts.h"
#include "engines/runs/ranks.h"
#include "engines/runs/remembered.h"
#include "engines/runs/show.h"
#include "engines/runs/steps.h"
#include "engines/runs/training.h"

namespace mpnanny::list_runs {
namespace {

constexpr size_t kMaxNotes = 10;
constexpr size_t kRunsRemembered = 256;
// A log is read from its beginning to its end to tell its last loss.
constexpr size_t kMostLogs = 200;
constexpr int64_t kMostLogBytes = 64 << 20, kMostBytesOfLogs = 512 << 20;

Result<std::optional<int64_t>> Number(const runs::Database& database, const char* sql,
                                      std::optional<int64_t> run_id = {}) {
  MPN_TRY_ASSIGN(auto row, database.Prepare(sql));
  if (run_id) row.Bind(1, *run_id);
  MPN_TRY_ASSIGN(auto next, row.Next());
  return next ? row.Int(0) : std::nullopt;
}

// How many steps of the run the database holds.
Result<int64_t> CountSteps(const runs::Database& database, int64_t run_id) {
  // Of a table SQLite counts cells page by page, of some of its rows one after the other, which
  // takes twice as long: mostly all rows are of one run.
  MPN_TRY_ASSIGN(auto first, Number(database, "SELECT min(run_id) FROM step"));
  MPN_TRY_ASSIGN(auto last, Number(database, "SELECT max(run_id) FROM step"));
  MPN_TRY_ASSIGN(auto count,
                 first == run_id && last == run_id
                     ? Number(database, "SELECT count(*) FROM step")
                     : Number(database, "SELECT count(*) FROM step WHERE run_id=?1", run_id));
  return count.value_or(0);
}

Result<std::optional<double>> LastLoss(const runs::Database& database, int64_t run_id) {
  // Backwards along the key; a run whose last steps log no loss costs a few rows, one without any
  // ends at the limit.
  MPN_TRY_ASSIGN(
      auto row, database.Prepare(
                    "SELECT loss, flags FROM step WHERE run_id=?1 ORDER BY step DESC LIMIT 10000"));
  row.Bind(1, run_id);
  while (true) {
    MPN_TRY_ASSIGN(auto next, row.Next());
    if (!next) return std::optional<double>();
    const int64_t flags = row.IntOr(1, 0);
    if (flags & runs::kLossNan) return std::optional(std::numeric_limits<double>::quiet_NaN());
    if (flags & runs::kLossInf) return std::optional(std::numeric_limits<double>::infinity());
    if (const auto loss = row.Real(0)) return loss;
  }
}

// What the database alone tells, without the run's row.
Result<ListedRun> ReadListed(const runs::Database& database, int64_t id) {
  ListedRun listed;
  MPN_TRY_ASSIGN(auto count, CountSteps(database, id));
  listed.steps = count;
  MPN_TRY_ASSIGN(auto newest, Number(database, "SELECT max(step) FROM step WHERE run_id=?1", id));
  listed.last_step = newest;
  MPN_TRY_ASSIGN(auto loss, LastLoss(database, id));
  listed.last_loss = loss;
  MPN_TRY_ASSIGN(
      auto alert,
      database.Prepare("SELECT severity, type, step FROM alert WHERE run_id=?1 AND severity=?2 "
                       "ORDER BY step, alert_id LIMIT 1"));
  for (const char* severity : {"ERROR", "WARNING", "INFO"}) {
    alert.Bind(1, id).Bind(2, std::string_view(severity));
    MPN_TRY_ASSIGN(auto next, alert.Next());
    if (next) {
      listed.worst_severity = Word<Severity>(alert.TextOr(0));
      listed.worst_type = Word<AlertType>(alert.TextOr(1));
      listed.worst_step = alert.Int(2);
      break;
    }
    alert.Reset();
  }
  return listed;
}

Result<ListedRun> Describe(const runs::Database& database, const runs::Ring& ring, runs::Run run) {
  static runs::Remembered<ListedRun> remembered(kRunsRemembered);
  const int64_t id = *run.handle.run_id;
  const std::string key =
      database.stamp().empty() ? "" : std::to_string(id) + " of " + database.stamp();
  auto known = remembered.Find(key);
  if (!known) {
    auto read = ReadListed(database, id);
    if (!read) return read.error();
    known = remembered.Keep(key, *std::move(read));
  }
  ListedRun listed = *known;
  if (runs::RingBelongs(ring, run)) {
    for (const RingStep& slot : ring.steps) {
      if (known->last_step && slot.step <= *known->last_step) continue;
      ++listed.steps;
      listed.last_step = slot.step;
      if (slot.known & kKnownLoss) listed.last_loss = slot.loss;
    }
  }
  listed.run = std::move(run);
  return listed;
}

Result<void> AddFile(const std::string& path, const CancelToken& cancel, Listing& listing) {
  MPN_TRY_ASSIGN(auto opened, imports::OpenFile(path, cancel));
  const std::unique_ptr<runs::Database> database = std::move(opened.database);
  runs::Ring ring;
  if (opened.format.empty()) ring = runs::ReadRing(path);
  MPN_TRY_ASSIGN(auto found, runs::ReadRuns(*database, ring));
  std::vector<ListedRun> listed;
  for (runs::Run& run : found) {
    auto described = Describe(*database, ring, std::move(run));
    if (!described) return described.error();
    described->format = opened.format;
    listed.push_back(*std::move(described));
  }
  const bool open_end = std::any_of(listed.begin(), listed.end(), [](const ListedRun& run) {
    return run.run.status != runs::Status::kClosed;
  });
  if (database->wal_missing() && open_end && listing.notes.size() < kMaxNotes) {
    listing.notes.push_back(EscapeControl(path) +
                            " lies here without its '-wal' file, in which a run's last changes "
                            "stand until it ends: the end of its runs may be missing.");
  }
  ++(opened.format.empty() ? listing.databases : listing.logs);
  listing.runs.insert(listing.runs.end(), std::make_move_iterator(listed.begin()),
                      std::make_move_iterator(listed.end()));
  return {};
}

bool Worse(const ListedRun& a, const ListedRun& b) {
  if (b.worst_severity.empty()) return !a.worst_severity.empty();
  if (a.worst_severity.empty()) return false;
  const int left = runs::SeverityRank(a.worst_severity);
  const int right = runs::SeverityRank(b.worst_severity);
  return left != right ? left < right : a.worst_step < b.worst_step;
}

// All ranks as one run.
ListedRun Together(std::vector<ListedRun> ranks) {
  ListedRun whole = ranks.front();
  double sum = 0;
  int64_t losses = 0;
  std::optional<double> bad;
  for (const ListedRun& rank : ranks) {
    whole.ranks.push_back(rank.run.rank);
    whole.run.status = runs::TogetherStatus(whole.run.status, rank.run.status);
    whole.steps = std::max(whole.steps, rank.steps);
    whole.last_step = std::max(whole.last_step, rank.last_step);
    if (Worse(rank, whole)) {
      whole.worst_severity = rank.worst_severity;
      whole.worst_type = rank.worst_type;
      whole.worst_step = rank.worst_step;
      whole.worst_rank = rank.run.rank;
    }
  }
  if (!whole.worst_rank && !whole.worst_severity.empty()) whole.worst_rank = whole.run.rank;
  for (const ListedRun& rank : ranks) {
    if (!rank.last_loss || rank.last_step != whole.last_step) continue;
    if (!std::isfinite(*rank.last_loss)) {
      if (!bad || std::isnan(*rank.last_loss)) bad = rank.last_loss;
    } else {
      sum += *rank.last_loss;
      ++losses;
    }
  }
  if (bad) {
    whole.last_loss = bad;
  } else if (losses > 0) {
    whole.last_loss = sum / static_cast<double>(losses);
  }
  return whole;
}

// Puts the ranks of distributed runs together; the rest stays as it is.
void JoinRanks(std::vector<ListedRun>& listed) {
  std::map<std::string, std::vector<ListedRun>> families;
  std::vector<ListedRun> joined;
  for (ListedRun& run : listed) {
    if (run.run.world_size > 1) {
      families[runs::RankFamily(run.run.handle.path)].push_back(std::move(run));
    } else {
      joined.push_back(std::move(run));
    }
  }
  for (auto& [name, members] : families) {
    std::vector<runs::Run> rows;
    for (const ListedRun& member : members) rows.push_back(member.run);
    for (const std::vector<size_t>& group : runs::GroupRanks(rows)) {
      std::vector<ListedRun> ranks;
      for (const size_t i : group) ranks.push_back(std::move(members[i]));
      joined.push_back(Together(std::move(ranks)));
    }
  }
  listed = std::move(joined);
}

// The logs of other programs in a folder. A log that cannot be read is none.
Result<void> AddLogs(const std::string& folder, const CancelToken& cancel,
                     CancelToken::Clock::time_point until, Listing& listing) {
  MPN_TRY_ASSIGN(auto found, imports::FindLogs(folder, cancel));
  int64_t bytes = 0, left_out = 0;
  for (const imports::FoundLog& log : found.logs) {
    MPN_TRY(cancel.Check());
    const bool room = log.bytes <= kMostLogBytes && bytes + log.bytes <= kMostBytesOfLogs &&
                      listing.logs < kMostLogs && CancelToken::Clock::now() < until;
    if (!room) {
      ++left_out;
      continue;
    }
    bytes += log.bytes;
    auto added = AddFile(log.path, cancel, listing);
    if (!added && added.error().kind == ErrorKind::kCancelled) return added.error();
  }
  if (left_out > 0) {
    listing.notes.push_back(runs::Count(left_out, "log") +
                            " of other programs, large or too many to read for a list, " +
                            (left_out == 1 ? "is" : "are") +
                            " left out. Name its folder to see one.");
  }
  if (found.ended_early) {
    listing.notes.push_back(
        "There are too many folders to look for logs in all of them. A folder "
        "further down has fewer.");
  }
  return {};
}

// The last `parts` of where a run lies: "exp/7" of "/home/x/exp/7/nanny_logs/metrics.db", which is
// where the monitor writes, "7/low.db" of "/home/x/exp/7/low.db".
std::string PlaceOf(std::string path, size_t parts) {
  constexpr std::string_view kUsual = "/nanny_logs/metrics.db";
  if (path.ends_with(kUsual)) path.resize(path.size() - kUsual.size());
  size_t at = path.size();
  for (; parts > 0 && at != std::string::npos && at > 0; --parts) {
    at = path.find_last_of("/\\", at - 1);
  }
  return at == std::string::npos || at == path.size() ? path : path.substr(at + 1);
}

// A run's name is its script's: many runs have one. Those of one file are told apart by their ids.
void NamePlaces(std::vector<ListedRun>& listed) {
  constexpr size_t kMostParts = 8;
  std::map<std::string, std::vector<ListedRun*>> by_name;
  for (ListedRun& run : listed) by_name[run.run.name].push_back(&run);
  for (auto& [name, runs] : by_name) {
    std::set<std::string> files;
    for (const ListedRun* run : runs) files.insert(run->run.handle.path);
    if (files.size() < 2) continue;
    for (size_t parts = 1; parts <= kMostParts; ++parts) {
      std::set<std::string> places;
      for (ListedRun* run : runs) {
        run->place = PlaceOf(run->run.handle.path, parts);
        places.insert(run->place);
      }
      if (places.size() == files.size()) break;
    }
  }
}

Result<Listing> ListDatabase(const std::string& url, const AllowedRoots& roots,
                             const CancelToken& cancel) {
  MPN_TRY_ASSIGN(auto trainings, runs::ListTrainings(url, roots, cancel));
  Listing listing;
  listing.databases = 1;
  for (runs::ListedTraining& training : trainings) {
    ListedRun listed;
    listed.run = std::move(training.run);
    listed.ranks = std::move(training.ranks);
    listed.steps = training.steps;
    listed.last_step = training.last_step;
    listed.last_loss = training.last_loss;
    listed.worst_severity = training.worst_severity;
    listed.worst_type = training.worst_type;
    listed.worst_step = training.worst_step;
    if (listed.run.world_size > 1) listed.worst_rank = training.worst_rank;
    listing.runs.push_back(std::move(listed));
  }
  return listing;
}

}  // namespace

Result<Listing> ListRuns(const std::string& path, const AllowedRoots& roots,
                         const CancelToken& cancel, CancelToken::Clock::duration limit) {
  if (IsDatabaseUrl(path)) return ListDatabase(path, roots, cancel);
  // A handle is taken as well: its file's runs are what is asked for.
  std::string start = path;
  if (!roots.Resolve(start)) {
    if (const RunHandle handle = ParseRunHandle(path); handle.run_id) start = handle.path;
  }
  MPN_TRY_ASSIGN(auto files, runs::FindDatabases(start, roots, cancel));
  Listing listing;
  listing.notes = files.notes;
  size_t unnoted = 0, looked_at = 0;
  const auto until = CancelToken::Clock::now() + limit;
  for (const std::string& file : files.paths) {
    MPN_TRY(cancel.Check());
    if (looked_at > 0 && CancelToken::Clock::now() >= until) {
      listing.notes.push_back("Stopped at the time limit: " + std::to_string(looked_at) + " of " +
                              std::to_string(files.paths.size()) +
                              " databases were looked at. A folder further down has fewer.");
      break;
    }
    ++looked_at;
    auto added = AddFile(file, cancel, listing);
    if (added) continue;
    const ErrorKind kind = added.error().kind;
    if (!files.folder || kind == ErrorKind::kCancelled || kind == ErrorKind::kDeadlineExceeded) {
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
  if (files.folder) {
    MPN_TRY(AddLogs(files.start, cancel, until, listing));
  }
  JoinRanks(listing.runs);
  NamePlaces(listing.runs);
  std::stable_sort(
      listing.runs.begin(), listing.runs.end(),
      [](const ListedRun& a, const ListedRun& b) { return a.run.started_at > b.run.started_at; });
  return listing;
}

}  // namespace mpnanny::list_runs
