#include "engines/team/found_files.h"

#include <algorithm>
#include <filesystem>

#include "base/files.h"
#include "base/resolved_path.h"
#include "base/text.h"
#include "engines/runs/ranks.h"
#include "engines/runs/run.h"

namespace mpnanny::team {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostEntries = 200'000;

// The runs of the ranks that belong to one run of a file.
Result<void> AddRanksOf(const std::string& path, int64_t run_id, const AllowedRoots& roots,
                        const CancelToken& cancel, WantedFiles& wanted) {
  std::vector<runs::Run> all;
  for (const std::string& file : runs::RankFiles(path, roots, cancel)) {
    auto database = runs::Database::Open(file, cancel);
    if (!database && file == path) return database.error();
    if (!database) continue;
    auto found = runs::ReadRuns(**database, {});
    if (!found) continue;
    all.insert(all.end(), found->begin(), found->end());
  }
  for (const std::vector<size_t>& group : runs::GroupRanks(all)) {
    const bool ours = std::any_of(group.begin(), group.end(), [&](size_t i) {
      return all[i].handle.path == path && all[i].handle.run_id == run_id;
    });
    if (!ours) continue;
    for (const size_t i : group) wanted.files[all[i].handle.path].insert(*all[i].handle.run_id);
    return {};
  }
  return NotFound(EscapeControl(path) + " holds no run " + std::to_string(run_id) + ".",
                  "`mpnanny runs` with the file shows its runs.");
}

// All of a file's runs, whatever was asked of it before.
void AddWhole(const std::string& path, WantedFiles& wanted) { wanted.files[path].clear(); }

std::vector<std::string> Matching(const std::string& pattern) {
  const fs::path whole(pattern);
  const fs::path folder = whole.parent_path().empty() ? fs::path(".") : whole.parent_path();
  std::vector<std::string> found;
  const auto entries = ListResolvedFolder(folder.generic_string(), kMostEntries);
  if (!entries) return found;
  for (const FolderEntry& entry : *entries) {
    if (!MatchesGlob(whole.filename().generic_string(), entry.name)) continue;
    const fs::path path = folder / entry.name;
    std::error_code ec;
    if (fs::is_directory(path, ec) || runs::LooksLikeDatabase(fs::canonical(path, ec).string())) {
      found.push_back(path.generic_string());
    }
  }
  return found;
}

}  // namespace

Result<WantedFiles> FindWanted(const std::vector<std::string>& words, const CancelToken& cancel) {
  const AllowedRoots roots = AllowedRoots::Unrestricted();
  WantedFiles wanted;
  std::vector<std::string> rest(words.rbegin(), words.rend());
  while (!rest.empty()) {
    MPN_TRY(cancel.Check());
    const std::string word = rest.back();
    rest.pop_back();
    auto path = roots.Resolve(word);
    if (const RunHandle handle = ParseRunHandle(word); !path && handle.run_id) {
      if (auto file = roots.Resolve(handle.path)) {
        MPN_TRY(AddRanksOf(*file, *handle.run_id, roots, cancel, wanted));
        continue;
      }
    }
    std::error_code ec;
    if (path && fs::is_directory(*path, ec)) {
      MPN_TRY_ASSIGN(auto found, runs::FindDatabases(*path, roots, cancel));
      for (const std::string& file : found.paths) AddWhole(file, wanted);
      if (found.paths.empty()) wanted.missing.push_back(word);
      continue;
    }
    if (!path && word.find_first_of("*?") != std::string::npos) {
      std::vector<std::string> found = Matching(word);
      if (found.empty()) wanted.missing.push_back(word);
      rest.insert(rest.end(), found.begin(), found.end());
      continue;
    }
    const auto lowest = runs::LowestRankOf(word, roots, cancel);
    if (!path && !lowest) {
      wanted.missing.push_back(word);
      continue;
    }
    if (path) {
      for (const std::string& file : runs::RankFiles(*path, roots, cancel)) AddWhole(file, wanted);
    }
    if (lowest) {
      for (const std::string& file : runs::RankFiles(*lowest, roots, cancel)) {
        AddWhole(file, wanted);
      }
    }
  }
  return wanted;
}

}  // namespace mpnanny::team
