#include "tools/runs/steps.h"

#include <charconv>
#include <cmath>

#include "base/text.h"

namespace mpnanny::runs {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

StepRow FromDatabase(const Statement& row) {
  StepRow s;
  s.step = row.IntOr(0, 0);
  s.at = row.Real(1);
  s.duration = row.Real(2);
  s.loss = row.Real(3);
  s.lr = row.Real(4);
  s.loss_scale = row.Real(5);
  s.grad_norm = row.Real(6);
  s.peak_memory = row.Int(7);
  s.flags = static_cast<uint32_t>(row.IntOr(8, 0));
  if (s.flags & kLossNan) s.loss = kNan;
  if (s.flags & kLossInf) s.loss = kInf;
  return s;
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

std::optional<int64_t> ParseInt(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Result<StepRange> ParseStepRange(std::string_view text) {
  const Error wrong = InvalidInput("steps '" + EscapeControl(text, 60) + "' is not a range.",
                                   "Write \"100..200\" (both ends in), \"100..\", \"..200\" or "
                                   "\"100\".");
  StepRange range;
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) {
    const auto only = ParseInt(text);
    if (!only) return wrong;
    return StepRange{*only, *only};
  }
  if (dots > 0) {
    const auto first = ParseInt(text.substr(0, dots));
    if (!first) return wrong;
    range.first = *first;
  }
  if (dots + 2 < text.size()) {
    const auto last = ParseInt(text.substr(dots + 2));
    if (!last) return wrong;
    range.last = *last;
  }
  if (text.size() == 2) return wrong;
  if (range.first > range.last) {
    return InvalidInput("steps '" + EscapeControl(text, 60) + "' ends before it begins.");
  }
  return range;
}

Result<void> ForEachStep(const Source& source, const StepRange& range,
                         const std::function<bool(const StepRow&)>& visit) {
  auto rows = source.database->Prepare(
      "SELECT step, at, duration, loss, lr, loss_scale, grad_norm, peak_memory, flags FROM step "
      "WHERE run_id=?1 AND step BETWEEN ?2 AND ?3 ORDER BY step");
  if (!rows) return rows.error();
  rows->Bind(1, *source.run.handle.run_id).Bind(2, range.first).Bind(3, range.last);

  auto slot = source.ring.steps.begin();
  const auto end = source.ring.steps.end();
  while (slot != end && slot->step < range.first) ++slot;
  const auto visit_ring_before = [&](std::optional<int64_t> step) {
    for (; slot != end && slot->step <= range.last && (!step || slot->step < *step); ++slot) {
      StepRow row = FromRing(*slot);
      row.only_in_ring = true;
      row.flags |= kRecovered;
      if (!visit(row)) return false;
    }
    return true;
  };
  while (true) {
    auto next = rows->Next();
    if (!next) return next.error();
    if (!*next) break;
    StepRow row = FromDatabase(*rows);
    if (!visit_ring_before(row.step)) return {};
    if (slot != end && slot->step == row.step) Merge(row, FromRing(*slot++));
    if (!visit(row)) return {};
  }
  visit_ring_before(std::nullopt);
  return {};
}

Result<std::optional<StepRow>> ReadStep(const Source& source, int64_t step) {
  std::optional<StepRow> found;
  auto read = ForEachStep(source, {step, step}, [&](const StepRow& row) {
    found = row;
    return true;
  });
  if (!read) return read.error();
  return found;
}

}  // namespace mpnanny::runs
