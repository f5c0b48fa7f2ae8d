// Which databases hold the ranks of one distributed run.
//
// Every rank writes a database of its own, told by "rank<number>" in the file's or the folder's
// name (metrics.rank3.db). What belongs together is decided by what the runs' rows say: same name,
// same world size, different ranks, begun within minutes of each other. Free functions, plain
// values.
#ifndef MPNANNY_ENGINES_RUNS_RANKS_H_
#define MPNANNY_ENGINES_RUNS_RANKS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/files.h"
#include "engines/runs/run.h"

namespace mpnanny::runs {

// The path with the number after "rank" in the file's and its folder's name replaced by '*': equal
// for the files of one run's ranks, and the path itself where there is none.
std::string RankFamily(const std::string& path);

// The databases of the path's family, itself among them, sorted; canonical and inside the roots.
std::vector<std::string> RankFiles(const std::string& path, const AllowedRoots& roots,
                                   const CancelToken& cancel);

// The database of the lowest rank that was recorded under `path`'s name: under torchrun each rank
// writes metrics.rank3.db where one process would write metrics.db. nullopt: there is none.
std::optional<std::string> LowestRankOf(const std::string& path, const AllowedRoots& roots,
                                        const CancelToken& cancel);

// Puts the runs of one family together: each group lists indices into `runs`, one a rank, by rank.
// A run of one process is a group of its own.
std::vector<std::vector<size_t>> GroupRanks(const std::vector<Run>& runs);

// One status for two ranks: an exception is told before the ranks that died of it.
Status TogetherStatus(Status a, Status b);

// "Ranks 4 to 7 of 8 are not here …" for the ranks that a group lacks; "" if none is missing.
std::string MissingRanks(const std::vector<int64_t>& present, int64_t world_size);
// The same of ranks that no database of a team holds.
std::string UnshippedRanks(const std::vector<int64_t>& present, int64_t world_size);

// What is said of ranks that are read as one run: "Merged from …". `decider`: the rank that was bad
// first, or with `bad` false the first.
std::string MergedNote(const std::vector<int64_t>& present, int64_t world_size, int64_t decider,
                       bool bad);
// What is said of one rank alone: "This is rank 3 of 8 …".
std::string AloneNote(int64_t rank, int64_t world_size, const RunHandle& whole);
// `run` has no such rank.
Error NoSuchRank(int64_t rank, const Run& run, const std::vector<int64_t>& present);

// The ranks of "0,2,5", as a database lists them.
std::vector<int64_t> NumbersOf(std::string_view text);

// "rank 3", "ranks 0, 2 and 5", "all 8 ranks".
std::string RanksText(const std::vector<int64_t>& ranks, int64_t world_size);

// Where a rank first went wrong, comparable: the rank with the least is looked at first.
struct FirstBad {
  int backward = 2;  // 0: outside the backward pass, which is no scaler's normal work; 2: never
  int64_t step = 0;
  int phase = 0;
  int producer = 1;
  auto operator<=>(const FirstBad&) const = default;
};
Result<FirstBad> FindFirstBad(const Database& database, const Run& run, const Ring& ring);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_RANKS_H_
