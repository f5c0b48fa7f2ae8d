#include "engines/runs/step_cursor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engines/runs/parts.h"
#include "engines/runs/ranks.h"

namespace mpnanny::runs {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// Into a row that held another one before.
void FromDatabase(const Statement& row, StepRow& s) {
  s.step = row.IntOr(0, 0);
  s.at = row.Real(1);
  s.duration = row.Real(2);
  s.loss = row.Real(3);
  s.lr = row.Real(4);
  s.loss_scale = row.Real(5);
  s.grad_norm = row.Real(6);
  s.peak_memory = row.Int(7);
  s.flags = static_cast<uint32_t>(row.IntOr(8, 0));
  s.first_nonfinite_layer = -1;  // Merge() may have set them
  s.nonfinite_layers = 0;
  // A loss beside the flag is finite: it is a part of it that was not (logs only).
  if (!s.loss && s.flags & kLossNan) s.loss = kNan;
  if (!s.loss && s.flags & kLossInf) s.loss = kInf;
  if (!s.grad_norm && s.flags & kGradNonFinite) s.grad_norm = kNan;
}

StepRow FromRing(const RingStep& slot) {
  StepRow s;
  s.step = slot.step;
  s.at = slot.at;
  const auto known = [&](RingKnown bit, double value) {
    return slot.known & bit ? std::optional(value) : std::nullopt;
  };
  s.duration = known(kKnownDuration, slot.duration);
  s.loss = known(kKnownLoss, slot.loss);
  s.lr = known(kKnownLr, slot.lr);
  s.loss_scale = known(kKnownLossScale, slot.loss_scale);
  s.grad_norm = known(kKnownGradNorm, slot.grad_norm);
  if (slot.known & kKnownPeakMemory) s.peak_memory = slot.peak_memory;
  s.flags = slot.flags;
  s.first_nonfinite_layer = slot.first_nonfinite_layer;
  s.nonfinite_layers = slot.nonfinite_layers;
  return s;
}

// Same step in both: the ring knows what NULL stands for, the database what a later correction
// wrote.
void Merge(StepRow& row, const StepRow& ring) {
  const auto fill = [](std::optional<double>& into, const std::optional<double>& from) {
    if (!into || (from && !std::isfinite(*from))) into = from ? from : into;
  };
  fill(row.at, ring.at);
  fill(row.duration, ring.duration);
  fill(row.loss, ring.loss);
  fill(row.lr, ring.lr);
  fill(row.loss_scale, ring.loss_scale);
  fill(row.grad_norm, ring.grad_norm);
  if (!row.peak_memory) row.peak_memory = ring.peak_memory;
  row.flags |= ring.flags;
  row.first_nonfinite_layer = ring.first_nonfinite_layer;
  row.nonfinite_layers = ring.nonfinite_layers;
}

// A value that is not finite stays so; of finite ones `pick` decides.
template <typename Pick>
void Join(std::optional<double>& into, const std::optional<double>& from, Pick pick) {
  if (!from) return;
  if (!into || (std::isfinite(*into) && !std::isfinite(*from)) || std::isnan(*from)) {
    into = from;
  } else if (std::isfinite(*into) && std::isfinite(*from)) {
    into = pick(*into, *from);
  }
}

const Ring& RingOf(const Source& source, size_t part) {
  return part == 0 ? source.ring : source.others[part - 1].ring;
}

}  // namespace

Result<StepCursor> StepCursor::Open(const Database& database, const Run& run, const Ring& ring,
                                    const StepRange& range) {
  auto rows = database.Prepare(
      "SELECT step, at, duration, loss, lr, loss_scale, grad_norm, peak_memory, flags FROM step "
      "WHERE run_id=?1 AND step BETWEEN ?2 AND ?3 ORDER BY step");
  if (!rows) return rows.error();
  rows->Bind(1, *run.handle.run_id);
  StepCursor cursor(*std::move(rows));
  cursor.Seek(ring, range);
  return cursor;
}

void StepCursor::Seek(const Ring& ring, const StepRange& range) {
  rows_.Reset();
  rows_.Bind(2, range.first).Bind(3, range.last);
  waiting_ = ended_ = false;
  const auto by_step = [](const RingStep& slot, int64_t step) { return slot.step < step; };
  slot_ = std::lower_bound(ring.steps.begin(), ring.steps.end(), range.first, by_step);
  end_ = range.last == std::numeric_limits<int64_t>::max()
             ? ring.steps.end()
             : std::lower_bound(slot_, ring.steps.end(), range.last + 1, by_step);
}

Result<const StepRow*> StepCursor::Next() {
  if (!waiting_ && !ended_) {
    MPN_TRY_ASSIGN(auto next, rows_.Next());
    waiting_ = next;
    ended_ = !waiting_;
    if (waiting_) FromDatabase(rows_, row_);
  }
  if (slot_ != end_ && (!waiting_ || slot_->step < row_.step)) {
    from_ring_ = FromRing(*slot_++);
    from_ring_.only_in_ring = true;
    from_ring_.flags |= kRecovered;
    return &from_ring_;
  }
  if (!waiting_) return nullptr;
  waiting_ = false;
  if (slot_ != end_ && slot_->step == row_.step) Merge(row_, FromRing(*slot_++));
  return &row_;
}

Result<MergedSteps> MergedSteps::Open(const Source& source, const StepRange& range) {
  MergedSteps merged(source);
  if (LiesInOne(source)) {
    auto rows = source.database->Prepare(
        "SELECT step, at, duration, loss, lr, loss_scale, grad_norm, peak_memory, flags, bad_ranks "
        "FROM step_all WHERE step BETWEEN ?1 AND ?2 ORDER BY step");
    if (!rows) return rows.error();
    rows->Bind(1, range.first).Bind(2, range.last);
    merged.of_training_.emplace(*std::move(rows));
    return merged;
  }
  for (size_t part = 0; part < PartsOf(source); ++part) {
    auto cursor = StepCursor::Open(DatabaseOf(source, part), RunOf(source, part),
                                   RingOf(source, part), range);
    if (!cursor) return cursor.error();
    merged.cursors_.push_back(*std::move(cursor));
  }
  return merged;
}

Result<void> MergedSteps::Advance(size_t part) {
  MPN_TRY_ASSIGN(auto row, cursors_[part].Next());
  heads_[part] = row;
  return {};
}

Result<const StepRow*> MergedSteps::NextOfTraining() {
  MPN_TRY_ASSIGN(auto next, of_training_->Next());
  if (!next) return nullptr;
  FromDatabase(*of_training_, merged_);
  merged_.bad_ranks = NumbersOf(of_training_->TextOr(9));
  return &merged_;
}

Result<const StepRow*> MergedSteps::Next() {
  if (of_training_) return NextOfTraining();
  // The rows lie in the cursors, which do not move any more.
  if (heads_.empty()) {
    heads_.resize(cursors_.size());
    for (size_t part = 0; part < heads_.size(); ++part) {
      MPN_TRY(Advance(part));
    }
  }
  const StepRow* first = nullptr;
  for (const StepRow* head : heads_) {
    if (head && (!first || head->step < first->step)) first = head;
  }
  if (!first) return nullptr;
  MPN_TRY(Take(first->step));
  return &merged_;
}

Result<void> MergedSteps::Take(int64_t step) {
  StepRow& merged = merged_;
  merged = {};
  merged.step = step;
  merged.only_in_ring = true;
  constexpr uint32_t kMoves = kScaleFell | kScaleRose;
  constexpr uint32_t kBadLoss = kLossNan | kLossInf;
  uint32_t moves = 0;
  double loss_sum = 0;
  int64_t losses = 0;
  std::vector<int64_t> bad_loss, bad_gradient;
  const auto greater = [](double a, double b) { return std::max(a, b); };
  for (size_t part = 0; part < heads_.size(); ++part) {
    if (!heads_[part] || heads_[part]->step != step) continue;
    const StepRow& row = *heads_[part];
    if (row.loss && std::isfinite(*row.loss)) {
      loss_sum += *row.loss;
      ++losses;
    } else if (row.loss) {
      Join(merged.loss, row.loss, greater);
    }
    if (!merged.lr) merged.lr = row.lr;
    if (!merged.loss_scale && row.loss_scale) {
      merged.loss_scale = row.loss_scale;
      moves = row.flags & kMoves;
    }
    Join(merged.grad_norm, row.grad_norm, greater);
    Join(merged.duration, row.duration, greater);
    Join(merged.at, row.at, greater);
    if (row.peak_memory) {
      merged.peak_memory = std::max(merged.peak_memory.value_or(0), *row.peak_memory);
    }
    merged.flags |= row.flags;
    merged.only_in_ring = merged.only_in_ring && row.only_in_ring;
    const int64_t rank = RunOf(source_, part).rank;
    if (row.flags & kBadLoss || (row.loss && !std::isfinite(*row.loss))) bad_loss.push_back(rank);
    if (row.flags & kGradNonFinite) bad_gradient.push_back(rank);
    merged.nonfinite_layers = std::max(merged.nonfinite_layers, row.nonfinite_layers);
    if (merged.first_nonfinite_layer < 0 && row.first_nonfinite_layer >= 0) {
      merged.first_nonfinite_layer = row.first_nonfinite_layer;
      if (part > 0) {
        MPN_TRY_ASSIGN(auto mapped, layers_.Map(part - 1, row.first_nonfinite_layer));
        merged.first_nonfinite_layer = mapped;
      }
    }
    MPN_TRY(Advance(part));
  }
  if (!merged.loss && losses > 0) merged.loss = loss_sum / static_cast<double>(losses);
  if (merged.loss_scale) merged.flags = (merged.flags & ~kMoves) | moves;
  merged.bad_ranks = bad_loss.empty() ? std::move(bad_gradient) : std::move(bad_loss);
  std::sort(merged.bad_ranks.begin(), merged.bad_ranks.end());
  return {};
}

}  // namespace mpnanny::runs
