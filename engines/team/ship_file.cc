#include "engines/team/ship_file.h"

#include <algorithm>

#include "base/os_file_system.h"
#include "engines/runs/ring.h"
#include "engines/team/ring_rows.h"

namespace mpnanny::team {
namespace {

// A file that did not change is opened all the same now and then: its process may have died.
constexpr std::chrono::seconds kLookAgain{5};

}  // namespace

std::string FileShipper::Stamp() const {
  std::string text;
  for (const char* end : {"", "-wal"}) {
    const auto stamp = StampOf(path_ + end);
    if (!stamp) continue;
    for (const uint64_t part : {stamp->device, stamp->inode, static_cast<uint64_t>(stamp->bytes),
                                static_cast<uint64_t>(stamp->changed)}) {
      text += std::to_string(part) + " ";
    }
  }
  return text;
}

void FileShipper::Forget() {
  stamp_.clear();
  for (auto& [id, one] : runs_) {
    one.part.reset();
    one.reader.reset();
    one.swept = one.ring_told = one.whole = false;
  }
}

bool FileShipper::over() const {
  return std::all_of(runs_.begin(), runs_.end(), [](const auto& entry) {
    return entry.second.whole && entry.second.run.status != runs::Status::kRunning;
  });
}

FileShipper::Outcome FileShipper::Ship(Connection& connection, const CancelToken& cancel) {
  Outcome outcome = ShipFile(connection, cancel);
  failures_ = outcome.file ? failures_ + 1 : 0;
  return outcome;
}

FileShipper::Outcome FileShipper::ShipFile(Connection& connection, const CancelToken& cancel) {
  const auto now = std::chrono::steady_clock::now();
  const std::string stamp = Stamp();
  if (!stamp_.empty() && stamp == stamp_ && (over() || now - looked_ < kLookAgain)) return {};
  looked_ = now;
  const runs::Ring ring = runs::ReadRing(path_);
  {
    auto database = runs::Database::Open(path_, cancel);
    if (!database) return {database.error(), std::nullopt};
    auto found = runs::ReadRuns(**database, ring);
    if (!found) return {found.error(), std::nullopt};
    for (runs::Run& run : *found) {
      const int64_t id = *run.handle.run_id;
      if (!wanted_.empty() && !wanted_.contains(id)) continue;
      if (run.started_at < new_since_) continue;
      runs_[id].run = std::move(run);
    }
  }
  for (auto& [id, one] : runs_) {
    Outcome outcome = ShipRun(connection, one, ring, cancel);
    if (outcome.file || outcome.server) return outcome;
  }
  // What was written meanwhile shows in the next stamp.
  stamp_ = stamp;
  return {};
}

FileShipper::Outcome FileShipper::ShipRun(Connection& connection, OneRun& one,
                                          const runs::Ring& ring, const CancelToken& cancel) {
  const bool over = one.run.status != runs::Status::kRunning;
  if (!one.part) {
    auto part = OpenPart(connection, one.run);
    if (!part) return {std::nullopt, part.error()};
    one.part = *std::move(part);
  }
  if (!one.reader) {
    one.reader = std::make_unique<RunReader>(path_, *one.run.handle.run_id, one.part->training,
                                             one.part->rank);
  }
  one.whole = false;
  while (true) {
    auto batch = one.reader->Read(one.part->marks, cancel);
    if (!batch) return {batch.error(), std::nullopt};
    const bool last = !batch->more;
    const bool ended = over && last && one.swept;
    if (ended && !one.ring_told) {
      auto rows = RingRows(one.run, ring, one.part->training, cancel);
      if (!rows) return {rows.error(), std::nullopt};
      for (Piece& piece : *rows) batch->pieces.push_back(std::move(piece));
    }
    if (!batch->pieces.empty() || ended != one.part->ended) {
      auto written = WriteBatch(connection, *one.part, *batch, ended);
      if (!written) return {std::nullopt, written.error()};
      if (written->moved) {
        // Of another one's rows we know no counts and no state.
        one.reader = std::make_unique<RunReader>(path_, *one.run.handle.run_id, one.part->training,
                                                 one.part->rank);
        one.swept = false;
        continue;
      }
      one.ring_told = one.ring_told || ended;
      one.rows += written->rows;
      for (const Piece& piece : batch->pieces) {
        one.bytes += static_cast<int64_t>(piece.rows.size());
      }
    }
    one.reader->Committed(*batch);
    if (!last) continue;
    if (!over || one.swept) break;
    auto swept = one.reader->SweepMissed(one.part->marks, one.part->thinned, cancel);
    if (!swept) return {swept.error(), std::nullopt};
    one.swept = true;
  }
  one.whole = true;
  return {};
}

}  // namespace mpnanny::team
