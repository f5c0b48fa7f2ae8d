#include "engines/runs/ranks.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/resolved_path.h"
#include "base/text.h"
#include "engines/runs/alerts.h"
#include "engines/runs/steps.h"

namespace mpnanny::runs {
namespace fs = std::filesystem;
namespace {

// Ranks of a large machine do not begin together; a restarted run begins later than that, or
// brings a rank that the group already has.
constexpr double kStartSkewSeconds = 600;
constexpr size_t kMaxFolderEntries = 50'000;  // of a folder that is searched for the other ranks
constexpr int64_t kMaxWorldSize = 1'000'000;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

struct Family {
  std::string name;    // "metrics.rank*.db"
  std::string number;  // "12"; "" where the name has no rank
};

Family FamilyOf(const std::string& name) {
  Family family;
  for (size_t i = 0; i < name.size(); ++i) {
    family.name += name[i];
    if (!family.name.ends_with("rank") || i + 1 >= name.size() || !IsDigit(name[i + 1])) continue;
    family.name += '*';
    family.number.clear();
    while (i + 1 < name.size() && IsDigit(name[i + 1])) family.number += name[++i];
  }
  return family;
}

struct Place {
  fs::path folder;
  Family file, parent;
  // The folder is one rank's (rank3/metrics.rank3.db), not of a setting (lora_rank8/).
  bool folder_of_rank = false;
};

Place RankPlaceOf(const std::string& path) {
  const fs::path whole(path);
  Place place{whole.parent_path(), FamilyOf(whole.filename().generic_string()), {}};
  place.parent = FamilyOf(place.folder.filename().generic_string());
  place.folder_of_rank = !place.parent.number.empty() &&
                         (place.file.number.empty() || place.file.number == place.parent.number);
  return place;
}

// The entries of a folder whose name is of the family.
std::vector<fs::path> EntriesOf(const fs::path& folder, const std::string& family) {
  std::vector<fs::path> found;
  const auto entries = ListResolvedFolder(folder.generic_string(), kMaxFolderEntries);
  if (!entries) return found;
  for (const FolderEntry& entry : *entries) {
    if (FamilyOf(entry.name).name == family) found.push_back(folder / entry.name);
  }
  return found;
}

// "0, 2 and 5", with "3 to 7" for a row of three and more.
std::string Ranges(const std::vector<int64_t>& ranks) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i;
    while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + 1) ++end;
    if (end - i < 2) end = i;
    parts.push_back(std::to_string(ranks[i]) +
                    (end > i ? " to " + std::to_string(ranks[end]) : ""));
    i = end + 1;
    if (parts.size() == 12 && i < ranks.size()) {
      parts.push_back(std::to_string(ranks.size() - i) + " more");
      break;
    }
  }
  if (parts.size() < 2) return Join(parts, "");
  const std::string last = parts.back();
  parts.pop_back();
  return Join(parts, ", ") + " and " + last;
}

}  // namespace

std::string RankFamily(const std::string& path) {
  const Place place = RankPlaceOf(path);
  const fs::path folder =
      place.folder_of_rank ? place.folder.parent_path() / place.parent.name : place.folder;
  return (folder / place.file.name).generic_string();
}

std::vector<std::string> RankFiles(const std::string& path, const AllowedRoots& roots,
                                   const CancelToken& cancel) {
  std::vector<std::string> files = {path};
  const Place place = RankPlaceOf(path);
  std::vector<fs::path> folders = {place.folder};
  if (place.folder_of_rank) {
    folders = EntriesOf(place.folder.parent_path(), place.parent.name);
  } else if (place.file.number.empty()) {
    return files;  // no rank stands in the name: other ranks can be in the same file only
  }
  for (const fs::path& sibling : folders) {
    if (cancel.stop_requested()) break;
    for (const fs::path& file : EntriesOf(sibling, place.file.name)) {
      auto resolved = roots.Resolve(file.generic_string());
      if (resolved && RankFamily(*resolved) == RankFamily(path) && LooksLikeDatabase(*resolved))
        files.push_back(*std::move(resolved));
    }
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

std::optional<std::string> LowestRankOf(const std::string& path, const AllowedRoots& roots,
                                        const CancelToken& cancel) {
  const fs::path whole(path);
  if (whole.extension().empty()) return std::nullopt;
  const fs::path parent = whole.parent_path();
  auto folder = roots.Resolve(parent.empty() ? "." : parent.generic_string());
  if (!folder) return std::nullopt;
  const std::string family =
      whole.stem().generic_string() + ".rank*" + whole.extension().generic_string();
  std::optional<std::pair<int64_t, std::string>> lowest;
  for (const fs::path& file : EntriesOf(*folder, family)) {
    if (cancel.stop_requested()) break;
    const std::string number = FamilyOf(file.filename().generic_string()).number;
    const int64_t rank = number.size() > 9 ? kMaxWorldSize : std::stoll(number);
    if (lowest && lowest->first <= rank) continue;
    auto resolved = roots.Resolve(file.generic_string());
    if (resolved && LooksLikeDatabase(*resolved)) lowest = {rank, *std::move(resolved)};
  }
  if (!lowest) return std::nullopt;
  return lowest->second;
}

std::vector<std::vector<size_t>> GroupRanks(const std::vector<Run>& runs) {
  std::vector<size_t> order(runs.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return runs[a].started_at < runs[b].started_at; });
  std::vector<std::vector<size_t>> groups;
  std::map<std::pair<std::string, int64_t>, std::vector<size_t>> open;  // by name and world size
  for (const size_t i : order) {
    const Run& run = runs[i];
    if (run.world_size > 1) {
      // The latest that lacks this rank: an earlier start may have lost its rank.
      std::vector<size_t>& candidates = open[{run.name, run.world_size}];
      const auto fits = std::find_if(candidates.rbegin(), candidates.rend(), [&](size_t group) {
        const std::vector<size_t>& members = groups[group];
        return std::fabs(run.started_at - runs[members.front()].started_at) <= kStartSkewSeconds &&
               std::none_of(members.begin(), members.end(),
                            [&](size_t other) { return runs[other].rank == run.rank; });
      });
      if (fits != candidates.rend()) {
        groups[*fits].push_back(i);
        continue;
      }
      candidates.push_back(groups.size());
    }
    groups.push_back({i});
  }
  for (std::vector<size_t>& group : groups) {
    std::sort(group.begin(), group.end(),
              [&](size_t a, size_t b) { return runs[a].rank < runs[b].rank; });
  }
  return groups;
}

Status TogetherStatus(Status a, Status b) {
  constexpr Status kOrder[] = {Status::kException, Status::kKilled, Status::kRunning,
                               Status::kClosed};
  return *std::min(std::find(kOrder, kOrder + 4, a), std::find(kOrder, kOrder + 4, b));
}

namespace {

std::string Missing(const std::vector<int64_t>& present, int64_t world_size,
                    const std::string& why) {
  std::vector<int64_t> missing;
  const int64_t size = std::min(world_size, kMaxWorldSize);
  for (int64_t rank = 0; rank < size; ++rank) {
    if (!std::binary_search(present.begin(), present.end(), rank)) missing.push_back(rank);
  }
  if (missing.empty()) return "";
  return (missing.size() == 1 ? "Rank " : "Ranks ") + Ranges(missing) + " of " +
         std::to_string(world_size) + (missing.size() == 1 ? " is" : " are") +
         " not here: what happened there is not known. " + why;
}

}  // namespace

std::string MissingRanks(const std::vector<int64_t>& present, int64_t world_size) {
  return Missing(
      present, world_size,
      "A run's rank databases lie in one folder (metrics.rank0.db, metrics.rank1.db …).");
}

std::string UnshippedRanks(const std::vector<int64_t>& present, int64_t world_size) {
  return Missing(present, world_size, "`mpnanny ship` brings a rank's database here.");
}

std::string MergedNote(const std::vector<int64_t>& present, int64_t world_size, int64_t decider,
                       bool bad) {
  return "Merged from " + RanksText(present, world_size) +
         ": steps and alerts are those of all, the loss is their mean; statistics of tensors are "
         "those of rank " +
         std::to_string(decider) + (bad ? ", whose first error is the earliest" : "") +
         " (`rank` asks for one).";
}

std::string AloneNote(int64_t rank, int64_t world_size, const RunHandle& whole) {
  return "This is rank " + std::to_string(rank) + " of " + std::to_string(world_size) + " alone; " +
         EscapeControl(FormatRunHandle(whole)) + " means all ranks.";
}

Error NoSuchRank(int64_t rank, const Run& run, const std::vector<int64_t>& present) {
  if (run.world_size <= 1) {
    return NotFound("This run has one process: there is no rank " + std::to_string(rank) + ".",
                    "Leave `rank` out.");
  }
  return NotFound("Rank " + std::to_string(rank) + " of this run is not here.",
                  "Here: " + RanksText(present, run.world_size) + " of " +
                      std::to_string(run.world_size) + ".");
}

std::vector<int64_t> NumbersOf(std::string_view text) {
  std::vector<int64_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int64_t number = 0;
    const auto [after, error] = std::from_chars(at, end, number);
    if (error != std::errc()) break;
    numbers.push_back(number);
    at = after + (after < end);
  }
  return numbers;
}

std::string RanksText(const std::vector<int64_t>& ranks, int64_t world_size) {
  if (ranks.size() > 1 && static_cast<int64_t>(ranks.size()) == world_size) {
    return "all " + std::to_string(world_size) + " ranks";
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + Ranges(ranks);
}

Result<FirstBad> FindFirstBad(const Database& database, const Run& run, const Ring& ring) {
  FirstBad first;
  MPN_TRY_ASSIGN(auto rows,
                 database.Prepare(
                     "SELECT step, phase, producer FROM alert WHERE run_id=?1 AND severity='ERROR' "
                     "ORDER BY coalesce(phase,'')='backward', step, alert_id LIMIT 200"));
  rows.Bind(1, *run.handle.run_id);
  while (true) {
    MPN_TRY_ASSIGN(auto next, rows.Next());
    if (!next) break;
    const Word<Phase> phase(rows.TextOr(1));
    first = std::min(first, {phase == Phase::kBackward ? 1 : 0, rows.IntOr(0, 0), PhaseRank(phase),
                             rows.IntOr(2, 0) == 1 ? 0 : 1});
  }
  if (!RingBelongs(ring, run)) return first;
  for (const RingStep& slot : ring.steps) {
    if ((slot.flags & (kLossNan | kLossInf)) == 0) continue;
    first = std::min(first, {0, slot.step, PhaseRank(Phase::kLoss), 1});
    break;
  }
  return first;
}

}  // namespace mpnanny::runs
