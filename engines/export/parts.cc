#include "engines/export/parts.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "base/run_handle.h"
#include "base/text.h"
#include "engines/runs/ranks.h"
#include "engines/runs/ring.h"
#include "engines/runs/run.h"

namespace mpnanny::exports {
namespace fs = std::filesystem;
namespace {

// Each holds files open and some MB of pages.
constexpr size_t kMaxOpen = 64;

class Finder {
 public:
  Finder(const AllowedRoots& roots, const CancelToken& cancel) : roots_(roots), cancel_(cancel) {}

  Result<void> Add(const std::string& name) {
    const RunHandle handle = ParseRunHandle(name);
    const auto path = roots_.Resolve(handle.path);
    std::error_code ec;
    if (path && !handle.run_id && fs::is_directory(*path, ec)) {
      MPN_TRY_ASSIGN(auto any, AddFolder(*path));
      if (any) return {};
    }
    return AddRun(name);
  }

  // Opens what is to stay open.
  Result<Parts> Finish() {
    if (found_.parts.size() > kMaxOpen) return std::move(found_);
    for (Part& part : found_.parts) {
      if (part.database) continue;
      MPN_TRY(cancel_.Check());
      auto database = runs::Database::Open(part.path, cancel_);
      if (!database) return database.error();
      part.database = *std::move(database);
    }
    return std::move(found_);
  }

 private:
  void Note(std::string note) {
    if (std::find(found_.notes.begin(), found_.notes.end(), note) == found_.notes.end()) {
      found_.notes.push_back(std::move(note));
    }
  }

  void AddPart(std::string shown, const runs::Run& run, std::shared_ptr<runs::Database> database) {
    const int64_t run_id = *run.handle.run_id;
    if (!known_.insert({run.handle.path, run_id}).second) return;
    found_.runs.insert(shown);
    found_.parts.push_back(
        {std::move(shown), run.handle.path, run_id, run.rank, std::move(database)});
  }

  // Runs of one file, and what limits their reading.
  Result<std::vector<runs::Run>> RunsOf(const std::string& path) {
    MPN_TRY(cancel_.Check());
    MPN_TRY_ASSIGN(auto database, runs::Database::Open(path, cancel_));
    const runs::Ring ring = runs::ReadRing(path);
    MPN_TRY_ASSIGN(auto found, runs::ReadRuns(*database, ring));
    for (const std::string& note : database->notes()) Note(note);
    MPN_TRY(NoteRing(*database, ring, path));
    const bool open_end = std::any_of(found.begin(), found.end(), [](const runs::Run& run) {
      return run.status != runs::Status::kClosed;
    });
    if (database->wal_missing() && open_end) {
      Note(EscapeControl(path) +
           " lies here without its '-wal' file: the end of its runs may be "
           "missing.");
    }
    return found;
  }

  // Tables are exported as they are: what only the flight recorder knows is not in them.
  Result<void> NoteRing(const runs::Database& database, const runs::Ring& ring,
                        const std::string& path) {
    if (!ring.present) return {};
    MPN_TRY_ASSIGN(auto last, database.Prepare("SELECT max(step) FROM step WHERE run_id=?1"));
    last.Bind(1, ring.run_id);
    MPN_TRY_ASSIGN(auto row, last.Next());
    const int64_t written = row ? last.IntOr(0, -1) : -1;
    const auto more = std::count_if(ring.steps.begin(), ring.steps.end(),
                                    [&](const RingStep& slot) { return slot.step > written; });
    if (more == 0) return {};
    Note("The flight recorder beside " + EscapeControl(path) + " holds " + std::to_string(more) +
         " steps more than the database: `mpnanny pack` makes one file of both, which can be "
         "exported.");
    return {};
  }

  // The group's ranks, under the lowest one's handle.
  void AddGroup(const std::vector<runs::Run>& runs, const std::vector<size_t>& group) {
    const std::string shown = EscapeControl(FormatRunHandle(runs[group.front()].handle));
    std::vector<int64_t> present;
    for (const size_t i : group) {
      AddPart(shown, runs[i], nullptr);
      present.push_back(runs[i].rank);
    }
    const std::string missing = runs::MissingRanks(present, runs[group.front()].world_size);
    if (!missing.empty()) Note(shown + ": " + missing);
  }

  // All runs below; false if there is none.
  Result<bool> AddFolder(const std::string& path) {
    MPN_TRY_ASSIGN(auto files, runs::FindDatabases(path, roots_, cancel_));
    for (const std::string& note : files.notes) Note(note);
    std::map<std::string, std::vector<runs::Run>> families;
    for (const std::string& file : files.paths) {
      auto found = RunsOf(file);
      if (!found) {
        MPN_TRY(cancel_.Check());
        // Another program's database is nothing that is missing.
        if (found.error().kind != ErrorKind::kInvalidInput) {
          Note("Left out: " + found.error().Text());
        }
        continue;
      }
      auto& family = families[runs::RankFamily(file)];
      for (runs::Run& run : *found) family.push_back(std::move(run));
    }
    for (const auto& [name, family] : families) {
      for (const std::vector<size_t>& group : runs::GroupRanks(family)) AddGroup(family, group);
    }
    return !families.empty();
  }

  Result<void> AddRun(const std::string& name) {
    MPN_TRY_ASSIGN(auto source, runs::OpenRun(name, roots_, cancel_));
    if (source.database->holds_training()) {
      return InvalidInput(runs::ShownHandle(source) + " lies in a team's database, not in files.",
                          "Ask that database itself, or export the files that were shipped.");
    }
    if (source.others.empty()) {
      for (const std::string& note : source.notes) Note(note);
      if (source.format.empty()) {
        MPN_TRY(NoteRing(*source.database, source.ring, source.run.handle.path));
      } else {
        Note(EscapeControl(source.run.handle.path) + " was read as " + source.format + ".");
      }
      AddPart(runs::ShownHandle(source), source.run, std::move(source.database));
      return {};
    }
    const runs::Run run = source.run;
    source = {};  // closes the ranks that it holds
    std::vector<runs::Run> all;
    for (const std::string& file : runs::RankFiles(run.handle.path, roots_, cancel_)) {
      auto found = RunsOf(file);
      if (!found) {
        MPN_TRY(cancel_.Check());
        Note("A rank is left out: " + found.error().Text());
        continue;
      }
      for (runs::Run& one : *found) {
        if (one.world_size == run.world_size && one.name == run.name) all.push_back(std::move(one));
      }
    }
    for (const std::vector<size_t>& group : runs::GroupRanks(all)) {
      const bool ours = std::any_of(group.begin(), group.end(), [&](size_t i) {
        return all[i].handle.path == run.handle.path && all[i].handle.run_id == run.handle.run_id;
      });
      if (ours) AddGroup(all, group);
    }
    return {};
  }

  const AllowedRoots& roots_;
  const CancelToken& cancel_;
  Parts found_;
  std::set<std::pair<std::string, int64_t>> known_;
};

}  // namespace

Result<Parts> FindParts(const std::vector<std::string>& names, const AllowedRoots& roots,
                        const CancelToken& cancel) {
  Finder finder(roots, cancel);
  for (const std::string& name : names) MPN_TRY(finder.Add(name));
  return finder.Finish();
}

}  // namespace mpnanny::exports
