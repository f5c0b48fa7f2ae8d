// What is new in a rank's file since it was last shipped, a batch at a time.
//
// The file may be written at this moment: it is read as every tool reads it, within short
// snapshots, so that its writer is never held up and a slow server costs it nothing. Rows come by
// their keys, which grow while a run goes on. What else happens is seen as well: rows that change
// in place (an alert that continues, the run's end), rows that came late behind the mark, rows of
// which a count at the end says that they were missed.
//
// Belongs to one thread at a time. A batch is bounded in bytes; nothing is taken as shipped before
// Committed().
#ifndef MPNANNY_ENGINES_TEAM_RUN_READER_H_
#define MPNANNY_ENGINES_TEAM_RUN_READER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "engines/runs/database.h"
#include "engines/team/copy_bytes.h"
#include "engines/team/layout.h"
#include "engines/team/marks.h"

namespace mpnanny::team {

// Rows of one table.
struct Piece {
  const Table* table = nullptr;
  std::string rows;  // as CopyBytes makes them
  int64_t count = 0;
  bool again = false;  // some may be on the server already, or another state of them
  std::optional<int64_t> first_step;
};

struct Batch {
  std::vector<Piece> pieces;
  Marks marks;        // when this batch is in; `rows` counts only pieces that are not `again`
  bool more = false;  // the budget ended it
  size_t bytes = 0;

 private:
  friend class RunReader;
  struct Window {  // the rows of the last steps up to a mark, counted
    Key end;
    int64_t rows = 0;
  };
  struct RowHash {
    std::string table, key;
    uint64_t hash = 0;
  };
  std::vector<RowHash> hashes;
  std::map<std::string, Window> windows;
  std::map<std::string, std::optional<Key>> sweeps;  // how far; absent: done
};

class RunReader {
 public:
  static constexpr size_t kBatchBytes = 8u << 20;

  // `training` and `rank` stand in front of every row.
  RunReader(std::string path, int64_t run_id, int64_t training, int64_t rank)
      : path_(std::move(path)), run_id_(run_id), training_(training), rank_(rank) {}

  // The next batch behind `marks`.
  Result<Batch> Read(const Marks& marks, const CancelToken& cancel);
  void Committed(const Batch& batch);
  // The run is over: the next batches bring once more what counts say was missed, and what may have
  // been replaced. `thinned`: statistics went from the server on purpose, and stay away.
  Result<void> SweepMissed(const Marks& marks, bool thinned, const CancelToken& cancel);

 private:
  struct Reading;
  Result<void> ReadChanged(Reading& reading, const Table& table);
  Result<void> ReadNew(Reading& reading, const Table& table);
  Result<void> ReadLate(Reading& reading, const Table& table);
  Result<void> ReadSweep(Reading& reading, const Table& table);

  std::string path_;
  int64_t run_id_, training_, rank_;
  std::map<std::string, std::map<std::string, uint64_t>> hashes_;  // by table and key
  std::map<std::string, Batch::Window> windows_;
  std::map<std::string, Key> sweeps_;
};

}  // namespace mpnanny::team

#endif  // MPNANNY_ENGINES_TEAM_RUN_READER_H_
