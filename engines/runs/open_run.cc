// OpenRun: from a handle, a file or a folder to the run, all ranks of it.
#include <algorithm>
#include <filesystem>
#include <set>

#include "base/text.h"
#include "engines/runs/evaluations.h"
#include "engines/runs/packed.h"
#include "engines/runs/ranks.h"
#include "engines/runs/run.h"
#include "engines/runs/training.h"

namespace mpnanny::runs {
namespace {

// Ranks read side by side: each holds files open. Of a larger run those that were bad first are.
constexpr size_t kMaxRanksOpen = 64;
constexpr size_t kMaxNotes = 8;

struct Member {
  Run run;
  FirstBad first_bad;
};

// "Runs in this file: 1, 2, 3." nearest to the one asked for, at most seven.
std::string NearestIds(std::vector<Run> runs, int64_t wanted) {
  const auto distance = [&](const Run& run) {
    const int64_t id = *run.handle.run_id;
    return id > wanted ? static_cast<uint64_t>(id) - static_cast<uint64_t>(wanted)
                       : static_cast<uint64_t>(wanted) - static_cast<uint64_t>(id);
  };
  std::stable_sort(runs.begin(), runs.end(),
                   [&](const Run& a, const Run& b) { return distance(a) < distance(b); });
  std::set<int64_t> nearest;
  for (size_t i = 0; i < runs.size() && i < 7; ++i) nearest.insert(*runs[i].handle.run_id);
  std::vector<std::string> ids;
  for (const int64_t id : nearest) ids.push_back(std::to_string(id));
  return (runs.size() > 7 ? "The nearest of its " + std::to_string(runs.size()) + " runs: "
                          : "Its runs: ") +
         Join(ids, ", ") + ".";
}

// What is read of a rank whose database is open; notes what limits its reading.
OtherRank PartOf(std::unique_ptr<Database> database, Ring ring, const Run& run,
                 std::vector<std::string>& notes) {
  OtherRank part;
  part.database = std::move(database);
  part.run = run;
  notes.insert(notes.end(), part.database->notes().begin(), part.database->notes().end());
  notes.insert(notes.end(), ring.notes.begin(), ring.notes.end());
  part.ring = RingBelongs(ring, run) ? std::move(ring) : ReadPackedRing(*part.database, run);
  if (part.database->wal_missing() && run.status != Status::kClosed) {
    notes.push_back(
        "The database lies here without its '-wal' file, in which a run's last changes stand until "
        "it ends: the end of the run may be missing.");
  }
  return part;
}

Result<OtherRank> OpenRank(const Run& run, const CancelToken& cancel,
                           std::vector<std::string>& notes) {
  auto database = Database::Open(run.handle.path, cancel);
  if (!database) return database.error();
  return PartOf(*std::move(database), ReadRing(run.handle.path), run, notes);
}

Source AloneOf(OtherRank part, std::vector<std::string> notes) {
  Source source;
  source.database = std::move(part.database);
  source.run = std::move(part.run);
  source.ring = std::move(part.ring);
  source.notes = std::move(notes);
  source.shown = source.run.handle;
  return source;
}

// The members of the run's group, by rank, and what could not be read of its family.
Result<std::vector<Member>> MembersOf(const Run& run, const AllowedRoots& roots,
                                      const CancelToken& cancel, std::vector<std::string>& notes) {
  if (run.world_size <= 1) return std::vector<Member>{{run, {}}};
  std::vector<Run> all;
  std::vector<FirstBad> firsts;
  for (const std::string& file : RankFiles(run.handle.path, roots, cancel)) {
    MPN_TRY(cancel.Check());
    const auto read = [&]() -> Result<void> {
      MPN_TRY_ASSIGN(auto database, Database::Open(file, cancel));
      const Ring ring = ReadRing(file);
      MPN_TRY_ASSIGN(auto found, ReadRuns(*database, ring));
      for (Run& one : found) {
        if (one.world_size != run.world_size || one.name != run.name) continue;
        MPN_TRY_ASSIGN(auto first, FindFirstBad(*database, one, ring));
        firsts.push_back(first);
        all.push_back(std::move(one));
      }
      return {};
    };
    if (auto done = read(); !done) {
      if (file == run.handle.path || done.error().kind == ErrorKind::kCancelled ||
          done.error().kind == ErrorKind::kDeadlineExceeded) {
        return done.error();
      }
      if (notes.size() < kMaxNotes) notes.push_back("A rank is left out: " + done.error().Text());
    }
  }
  for (const std::vector<size_t>& group : GroupRanks(all)) {
    const bool ours = std::any_of(group.begin(), group.end(), [&](size_t i) {
      return all[i].handle.path == run.handle.path && all[i].handle.run_id == run.handle.run_id;
    });
    if (!ours) continue;
    std::vector<Member> members;
    for (const size_t i : group) members.push_back({std::move(all[i]), firsts[i]});
    return members;
  }
  return std::vector<Member>{{run, {}}};  // it went while we looked
}

Result<Source> OpenOne(const Run& run, const CancelToken& cancel) {
  std::vector<std::string> notes;
  auto part = OpenRank(run, cancel, notes);
  if (!part) return part.error();
  return AloneOf(*std::move(part), std::move(notes));
}

Result<Source> OpenTogether(std::vector<Member> members, const CancelToken& cancel) {
  const RunHandle whole = members.front().run.handle;
  const int64_t world_size = members.front().run.world_size;
  Status status = members.front().run.status;
  std::vector<int64_t> present;
  for (const Member& member : members) {
    present.push_back(member.run.rank);
    status = TogetherStatus(status, member.run.status);
  }
  std::vector<std::string> notes;
  std::stable_sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
    return a.first_bad < b.first_bad;  // of equals the lower rank
  });
  const Member& decider = members.front();
  const bool bad = decider.first_bad.backward < 2;
  if (members.size() > kMaxRanksOpen) {
    notes.push_back("Of " + std::to_string(members.size()) + " ranks " +
                    std::to_string(kMaxRanksOpen) +
                    " were read, those with the earliest errors first; `rank` asks for another.");
    members.resize(kMaxRanksOpen);
  }
  auto source = OpenOne(decider.run, cancel);
  if (!source) return source.error();
  for (size_t i = 1; i < members.size(); ++i) {
    auto part = OpenRank(members[i].run, cancel, notes);
    if (part) {
      source->others.push_back(*std::move(part));
      continue;
    }
    if (part.error().kind == ErrorKind::kCancelled) return part.error();
    std::erase(present, members[i].run.rank);
    notes.push_back("Rank " + std::to_string(members[i].run.rank) +
                    " is left out: " + part.error().Text());
  }
  std::sort(source->others.begin(), source->others.end(),
            [](const OtherRank& a, const OtherRank& b) { return a.run.rank < b.run.rank; });
  source->notes.push_back(MergedNote(present, world_size, source->run.rank, bad));
  if (const std::string missing = MissingRanks(present, world_size); !missing.empty()) {
    source->notes.push_back(missing);
  }
  if (auto behind = FallenBehind(*source); behind && !behind->empty()) {
    source->notes.push_back(*std::move(behind));
  }
  std::set<std::string> told(source->notes.begin(), source->notes.end());
  for (std::string& note : notes) {
    if (source->notes.size() < kMaxNotes && told.insert(note).second) {
      source->notes.push_back(std::move(note));
    }
  }
  source->run.status = status;
  source->shown = whole;
  return source;
}

// The newest run of all databases below a folder.
Result<RunHandle> NewestBelow(const std::string& folder, const AllowedRoots& roots,
                              const CancelToken& cancel) {
  MPN_TRY_ASSIGN(auto files, FindDatabases(folder, roots, cancel));
  std::optional<Run> newest;
  std::optional<Error> failed;
  for (const std::string& file : files.paths) {
    MPN_TRY(cancel.Check());
    auto database = Database::Open(file, cancel);
    if (!database) {
      if (database.error().kind != ErrorKind::kInvalidInput) failed = database.error();
      continue;
    }
    auto runs = ReadRuns(**database, {});
    if (!runs || runs->empty()) {
      if (!runs) failed = runs.error();
      continue;
    }
    if (!newest || runs->front().started_at > newest->started_at) newest = runs->front();
  }
  if (newest) return newest->handle;
  if (failed) return *failed;
  return NotFound(EscapeControl(folder) + " is a folder without a monitor's run below it.",
                  "list_runs with a folder shows the runs below it; a run without monitor is "
                  "named by its log: a TensorBoard or W&B folder, a CSV, JSON or text file.");
}

bool IsNewer(const std::string& path, const std::string& other) {
  std::error_code ec;
  const auto here = std::filesystem::last_write_time(path, ec);
  if (ec) return false;
  const auto there = std::filesystem::last_write_time(other, ec);
  return !ec && here > there;
}

Error NoSuchRun(int64_t run_id, const std::string& path, std::vector<Run> runs) {
  return NotFound("Run " + std::to_string(run_id) + " is not in " + EscapeControl(path) + ".",
                  NearestIds(std::move(runs), run_id));
}

// One rank alone.
Result<Source> OpenMember(int64_t rank, const Run& found, const std::vector<Member>& members,
                          const RunHandle& lowest, const CancelToken& cancel) {
  const auto member = std::find_if(members.begin(), members.end(),
                                   [&](const Member& m) { return m.run.rank == rank; });
  if (member == members.end()) {
    std::vector<int64_t> present;
    for (const Member& each : members) present.push_back(each.run.rank);
    return NoSuchRank(rank, found, present);
  }
  Result<Source> source = OpenOne(member->run, cancel);
  if (source && members.size() > 1) {
    source->notes.push_back(AloneNote(rank, found.world_size, lowest));
  }
  return source;
}

}  // namespace

Result<Source> OtherOfFile(const Source& source, int64_t run_id) {
  MPN_TRY_ASSIGN(auto runs, ReadRuns(*source.database, {}));
  const auto found = std::find_if(runs.begin(), runs.end(),
                                  [&](const Run& run) { return run.handle.run_id == run_id; });
  if (found == runs.end()) return NoSuchRun(run_id, source.database->path(), std::move(runs));
  Source other = source;
  other.run = std::move(*found);
  other.shown = other.run.handle;
  return other;
}

Result<Source> SourceOfLog(imports::Opened log, std::optional<int64_t> run_id) {
  auto runs = ReadRuns(*log.database, {});
  if (!runs) return runs.error();
  for (Run& run : *runs) {
    if (run_id && run.handle.run_id != run_id) continue;
    Source source;
    source.run = std::move(run);
    source.shown = source.run.handle;
    source.format = std::move(log.format);
    source.texts = std::move(log.texts);
    source.of_file = std::move(log.runs);
    source.notes = std::move(log.notes);
    source.numbered = log.numbered;
    source.of_players = log.of_players;
    source.database = std::move(log.database);
    MPN_TRY_ASSIGN(auto evaluations, ReadEvaluations(source));
    if (!source.numbered) evaluations.first_bad.reset();
    if (std::string text = EvaluationsText(evaluations); !text.empty()) {
      source.notes.push_back(std::move(text));
    }
    return source;
  }
  return NoSuchRun(run_id.value_or(0), log.database->path(), *std::move(runs));
}

std::string ShownHandle(const Source& source) {
  return EscapeControl(
      FormatRunHandle(source.shown.path.empty() ? source.run.handle : source.shown));
}

std::vector<int64_t> RanksOf(const Source& source) {
  if (source.others.empty()) return {};
  std::vector<int64_t> ranks = {source.run.rank};
  for (const OtherRank& other : source.others) ranks.push_back(other.run.rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

Result<Source> OpenRun(const std::string& handle, const AllowedRoots& roots,
                       const CancelToken& cancel, std::optional<int64_t> rank) {
  if (IsDatabaseUrl(handle)) return OpenTraining(handle, roots, cancel, rank);
  RunHandle wanted = ParseRunHandle(handle);
  auto path = roots.Resolve(wanted.path);
  // A file may be named "a#1": the handle's text as it stands is tried before the miss is told.
  if (!path && wanted.run_id) {
    if (auto whole = roots.Resolve(handle)) {
      path = std::move(whole);
      wanted.run_id.reset();
    }
  }
  std::vector<std::string> beside;  // what to say of rank files that lie beside the path
  const auto ranks = wanted.run_id ? std::nullopt : LowestRankOf(wanted.path, roots, cancel);
  if (!path && ranks) {
    path = *ranks;
  } else if (path && ranks && IsNewer(*ranks, *path)) {
    beside.push_back(EscapeControl(*ranks) +
                     " and what belongs to it lie beside this file and are newer: a run of several "
                     "processes was recorded there since.");
  }
  if (!path) {
    Error error = path.error();
    if (error.hint.empty()) error.hint = "list_runs with a folder shows the runs below it.";
    return error;
  }
  const bool bare = !wanted.run_id;
  std::error_code ec;
  const bool is_folder = std::filesystem::is_directory(*path, ec);
  std::optional<Result<RunHandle>> newest;  // of a folder
  if (bare && is_folder) {
    newest = NewestBelow(*path, roots, cancel);
    if (!*newest && newest->error().kind != ErrorKind::kNotFound) return newest->error();
  }
  if ((!newest || !*newest) && (!LooksLikeDatabase(*path) || imports::IsDatabaseOfLog(*path))) {
    auto log = imports::OpenLog(*path, cancel);
    if (!log) return log.error();
    if (*log) return SourceOfLog(**std::move(log), wanted.run_id);
  }
  if (newest) {
    if (!*newest) return newest->error();
    path = newest->value().path;
    wanted.run_id = newest->value().run_id;
  }
  const bool folder = bare && wanted.run_id;

  auto database = Database::Open(*path, cancel);
  if (!database) return database.error();
  Ring ring = ReadRing(*path);
  auto read = ReadRuns(**database, ring);
  if (!read) return read.error();
  std::vector<Run> runs = *std::move(read);
  if (runs.empty()) {
    return NotFound(EscapeControl(*path) + " holds no run yet.",
                    "The training may not have made its first step.");
  }
  const auto found =
      !wanted.run_id ? runs.begin() : std::find_if(runs.begin(), runs.end(), [&](const Run& run) {
        return run.handle.run_id == wanted.run_id;
      });
  if (found == runs.end()) {
    return NoSuchRun(*wanted.run_id, *path, std::move(runs));
  }

  std::vector<std::string> notes = std::move(beside);
  if (found->world_size <= 1 && rank.value_or(found->rank) == found->rank) {
    if (ring.present && runs.size() == 1 && !RingBelongs(ring, *found)) {
      notes.push_back("The flight recorder beside the database belongs to another run.");
    }
    OtherRank part = PartOf(*std::move(database), std::move(ring), *found, notes);
    return AloneOf(std::move(part), std::move(notes));
  }
  auto members = MembersOf(*found, roots, cancel, notes);
  if (!members) return members.error();
  const RunHandle lowest = members->front().run.handle;
  // A file that holds all ranks (as `pack` writes it) is asked for whole by its path.
  const bool whole = folder || (bare ? lowest.path == *path
                                     : lowest.run_id == wanted.run_id && lowest.path == *path);
  Result<Source> source =
      rank || !whole ? OpenMember(rank.value_or(found->rank), *found, *members, lowest, cancel)
                     : OpenTogether(*std::move(members), cancel);
  if (!source) return source;
  source->notes.insert(source->notes.end(), notes.begin(), notes.end());
  return source;
}

}  // namespace mpnanny::runs
