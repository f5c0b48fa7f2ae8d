// Brings what a run that was killed, or could not write its end, left in its flight ring into its
// rows.
#include <sqlite3.h>

#include "monitor/core/binder.h"
#include "monitor/core/database.h"

namespace mpnanny {
namespace {

std::optional<double> IfKnown(const RingStep& slot, uint32_t bit, double value) {
  return slot.known & bit ? std::optional(value) : std::nullopt;
}

}  // namespace

Result<int64_t> RunDatabase::Recover(const RingRemains& remains) {
  MPN_TRY_ASSIGN(auto known, Prepared("SELECT count(*) FROM run WHERE run_id = ? AND started_at = "
                                      "? AND (ended_at IS NULL OR ?)"));
  Binder(known)
      .Add(remains.run_id)
      .Add(remains.run_started_at)
      .Add(static_cast<int64_t>(!remains.end_reason.empty()));
  const bool ours = sqlite3_step(known) == SQLITE_ROW && sqlite3_column_int64(known, 0) == 1;
  sqlite3_reset(known);
  if (!ours) return 0;
  const int64_t run = run_id_, offset = layer_offset_,
                before = sqlite3_total_changes64(connection_.get());
  run_id_ = remains.run_id;
  layer_offset_ = 0;  // the ring holds the database's own layer ids
  Result<void> written = Transaction([&]() -> Result<void> {
    for (const RingStep& slot : remains.steps) {
      StepRow row;
      row.step = slot.step;
      row.at = slot.at;
      row.duration = IfKnown(slot, kKnownDuration, slot.duration);
      row.loss = IfKnown(slot, kKnownLoss, slot.loss);
      row.lr = IfKnown(slot, kKnownLr, slot.lr);
      row.loss_scale = IfKnown(slot, kKnownLossScale, slot.loss_scale);
      row.grad_norm = IfKnown(slot, kKnownGradNorm, slot.grad_norm);
      if (slot.known & kKnownPeakMemory) row.peak_memory = slot.peak_memory;
      row.flags = slot.flags | kRecovered;
      if (auto done = Insert(row); !done) return done;
    }
    for (const RingSample& slot : remains.samples) {
      SampleRow row;
      row.step = slot.step;
      row.layer = slot.layer_id;
      row.kind = static_cast<TensorKind>(slot.kind);
      row.slot = slot.slot;
      row.dtype = static_cast<DType>(slot.dtype);
      TensorStats& stats = row.stats;
      stats.numel = slot.numel;
      stats.nan = slot.nan;
      stats.posinf = slot.posinf;
      stats.neginf = slot.neginf;
      stats.zeros = slot.zeros;
      stats.finite = slot.has_finite ? slot.numel - stats.nonfinite() : 0;
      stats.min = slot.min;
      stats.max = slot.max;
      stats.absmax = slot.absmax;
      stats.absmin = slot.absmin;
      stats.mean = slot.mean;
      const auto n = static_cast<double>(stats.finite);
      stats.squared_deviation = slot.std * slot.std * n;
      stats.squares = slot.rms * slot.rms * n;
      stats.below_fp16 = slot.below_fp16;
      stats.subnormal_fp16 = slot.subnormal_fp16;
      stats.above_fp16 = slot.above_fp16;
      if (auto done = Insert(row); !done) return done;
    }
    if (remains.end_reason.empty()) return {};
    MPN_TRY_ASSIGN(
        auto ended,
        Prepared("UPDATE run SET ended_at = coalesce((SELECT max(at) FROM step WHERE run_id = ?1), "
                 "heartbeat_at), end_reason = ?2 WHERE run_id = ?1 AND ended_at IS NULL"));
    Binder(ended).Add(remains.run_id).Add(remains.end_reason);
    return Step(ended);
  });
  run_id_ = run;
  layer_offset_ = offset;
  if (!written) return written.error();
  return sqlite3_total_changes64(connection_.get()) - before;
}

}  // namespace mpnanny
