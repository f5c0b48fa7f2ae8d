#include "tools/query_stats/collector.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mpnanny::query_stats {
namespace {

// Points kept of all series together, and the least of one.
constexpr size_t kPointsInMemory = 400'000;
constexpr size_t kLeastPoints = 64;
constexpr size_t kMostPoints = 20'000;

double NonFiniteValue(const runs::TensorRow& row) {
  if (row.nan > 0 || (row.posinf > 0 && row.neginf > 0)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return row.posinf > 0 ? INFINITY : -INFINITY;
}

}  // namespace

SeriesKey Collector::KeyOf(const runs::TensorRow& row, int64_t block) const {
  // Slots of optimizer state are different figures (a moment and its square), those of the other
  // kinds are outputs and calls of one layer.
  const bool state = row.kind == runs::kOptimizerState;
  switch (question_.grouping) {
    case Grouping::kSlot:
      return {row.layer_id, row.kind, row.slot};
    case Grouping::kLayer:
      return {row.layer_id, row.kind, state ? row.slot : -1};
    case Grouping::kBlock:
      return {block, row.kind, state ? row.slot : -1};
    case Grouping::kStep:
      return {-1, row.kind, state ? row.slot : -1};
  }
  return {};
}

void Collector::Add(const std::vector<runs::TensorRow>& rows) {
  for (const runs::TensorRow& row : rows) {
    if (!question_.Asks(row.kind) || !question_.layers.Holds(row.layer_id)) continue;
    int64_t block = -1;
    if (question_.grouping == Grouping::kBlock) {
      const auto found = blocks_.of_layer.find(row.layer_id);
      if (found == blocks_.of_layer.end()) continue;  // the run's table of layers lacks it
      block = found->second;
    }
    const auto [place, fresh] = places_.try_emplace(KeyOf(row, block), series_.size());
    if (fresh) {
      series_.emplace_back().key = place->first;
      pending_.emplace_back();
    }
    Pending& pending = pending_[place->second];
    if (!pending.touched) {
      pending = {.touched = true};
      touched_.push_back(place->second);
    }
    Fold(pending, row);
  }
}

void Collector::Fold(Pending& pending, const runs::TensorRow& row) const {
  const bool bad = row.NonFinite() > 0;
  pending.nonfinite |= bad;
  const std::optional<double> figure = question_.metric->of_tensor(row);
  if (!figure || !std::isfinite(*figure)) {
    if (!bad && !figure) return;
    pending.nonfinite = true;
    // The first one stays; a finite figure of another slot or layer comes before it.
    if (!pending.known && pending.layer_id < 0) {
      pending.value = figure ? *figure : NonFiniteValue(row);
      pending.layer_id = row.layer_id;
    }
    return;
  }
  const double value = *figure;
  if (!pending.known) {
    pending.known = true;
    pending.value = pending.layer_value = value;
    pending.layer_id = row.layer_id;
    return;
  }
  if (IsWorse(question_.metric->worse, value, pending.layer_value)) {
    pending.layer_value = value;
    pending.layer_id = row.layer_id;
  }
  switch (question_.metric->fold) {
    case mpnanny::query_stats::Fold::kLargest:
      pending.value = std::max(pending.value, value);
      break;
    case mpnanny::query_stats::Fold::kSmallest:
      pending.value = std::min(pending.value, value);
      break;
    case mpnanny::query_stats::Fold::kSum:
      pending.value += value;
      break;
    case mpnanny::query_stats::Fold::kRootSumSquares:
      pending.value = std::hypot(pending.value, value);
      break;
    case mpnanny::query_stats::Fold::kLargestMagnitude:
      if (std::fabs(value) > std::fabs(pending.value)) pending.value = value;
      break;
  }
}

void Collector::EndStep(int64_t step) {
  const size_t most =
      std::clamp(kPointsInMemory / std::max<size_t>(1, series_.size()), kLeastPoints, kMostPoints);
  for (const size_t place : touched_) {
    Pending& pending = pending_[place];
    pending.touched = false;
    Series& series = series_[place];
    if (pending.known || pending.nonfinite) {
      series.Add({step, pending.value, pending.nonfinite, pending.layer_id},
                 question_.metric->worse, most);
    } else {
      ++series.not_known;
    }
  }
  touched_.clear();
}

std::vector<Series> Collector::Take() {
  std::erase_if(series_, [](const Series& series) { return series.points.empty(); });
  std::sort(series_.begin(), series_.end(),
            [](const Series& a, const Series& b) { return a.key < b.key; });
  return std::move(series_);
}

}  // namespace mpnanny::query_stats
