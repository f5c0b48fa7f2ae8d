#include "engines/runs/step_reader.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engines/runs/parts.h"

namespace mpnanny::runs {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

Result<void> LastOf(const Database& database, const Run& run, const Ring& ring, int64_t step,
                    std::optional<int64_t>& last) {
  MPN_TRY_ASSIGN(
      auto statement,
      database.Prepare(
          "SELECT step FROM step WHERE run_id=?1 AND step<=?2 ORDER BY step DESC LIMIT 1"));
  statement.Bind(1, *run.handle.run_id).Bind(2, step);
  MPN_TRY_ASSIGN(auto row, statement.Next());
  if (row) last = std::max(last.value_or(statement.IntOr(0, 0)), statement.IntOr(0, 0));
  const auto slot = std::upper_bound(ring.steps.begin(), ring.steps.end(), step,
                                     [](int64_t at, const RingStep& s) { return at < s.step; });
  if (slot != ring.steps.begin()) {
    const int64_t in_ring = std::prev(slot)->step;
    last = std::max(last.value_or(in_ring), in_ring);
  }
  return {};
}

Result<std::optional<StepRow>> Found(const Result<const StepRow*>& row) {
  if (!row) return row.error();
  return *row ? std::optional(**row) : std::nullopt;
}

}  // namespace

Result<StepReader> StepReader::Create(const Source& source) {
  auto cursor = StepCursor::Open(*source.database, source.run, source.ring, {0, 0});
  if (!cursor) return cursor.error();
  return StepReader(source, *std::move(cursor));
}

Result<std::optional<StepRow>> StepReader::From(int64_t step) {
  if (source_->others.empty()) {
    cursor_.Seek(source_->ring, {step, kEnd});
    return Found(cursor_.Next());
  }
  MPN_TRY_ASSIGN(auto merged, MergedSteps::Open(*source_, {step, kEnd}));
  return Found(merged.Next());
}

Result<std::optional<int64_t>> StepReader::UpTo(int64_t step) const {
  std::optional<int64_t> last;
  if (LiesInOne(*source_)) {
    MPN_TRY_ASSIGN(auto statement,
                   source_->database->Prepare(
                       "SELECT step FROM step_all WHERE step<=?1 ORDER BY step DESC LIMIT 1"));
    statement.Bind(1, step);
    MPN_TRY_ASSIGN(auto row, statement.Next());
    if (row) last = statement.Int(0);
    return last;
  }
  auto read = LastOf(*source_->database, source_->run, source_->ring, step, last);
  for (const OtherRank& other : source_->others) {
    if (read) read = LastOf(*other.database, other.run, other.ring, step, last);
  }
  if (!read) return read.error();
  return last;
}

}  // namespace mpnanny::runs
