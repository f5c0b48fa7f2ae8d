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

SeriesKey Collector::KeyOf(const Figure& row, int64_t block) const {
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
    case Grouping::kRanks:  // each rank's are folded by layer first
      return {-1, row.kind, state ? row.slot : -1};
  }
  return {};
}

void Collector::Add(const std::vector<runs::TensorRow>& rows) {
  for (const runs::TensorRow& row : rows) {
    // A large sample is asked about a few layers or kinds only.
    if (!question_.Asks(row.kind) || !question_.layers.Holds(row.layer_id)) continue;
    const bool bad = row.NonFinite() > 0;
    Add({row.layer_id, row.kind, row.slot, question_.metric->of_tensor(row), bad,
         bad ? NonFiniteValue(row) : 0});
  }
}

void Collector::Add(const std::vector<runs::ShadowProfileRow>& rows) {
  const bool outputs = question_.Asks(runs::kActivationGradient);
  for (const runs::ShadowProfileRow& row : rows) {
    const int64_t kind = row.phase == 0 ? runs::kActivation
                         : outputs      ? runs::kActivationGradient
                                        : runs::kGradient;
    if (!question_.Asks(kind) || !question_.layers.Holds(row.layer_id)) continue;
    Add({row.layer_id, kind, 0, question_.metric->of_profile(row)});
  }
}

void Collector::Add(const Figure& figure) {
  int64_t block = -1;
  if (question_.grouping == Grouping::kBlock) {
    const auto found = blocks_.of_layer.find(figure.layer_id);
    if (found == blocks_.of_layer.end()) return;  // the run's table of layers lacks it
    block = found->second;
  }
  const auto [place, fresh] = places_.try_emplace(KeyOf(figure, block), series_.size());
  if (fresh) {
    series_.emplace_back().key = place->first;
    pending_.emplace_back();
  }
  Pending& pending = pending_[place->second];
  if (!pending.touched) {
    pending = {.touched = true};
    touched_.push_back(place->second);
  }
  Fold(pending, figure);
}

void Collector::Fold(Pending& pending, const Figure& row) const {
  pending.nonfinite |= row.nonfinite;
  const std::optional<double>& figure = row.value;
  if (!figure || !std::isfinite(*figure)) {
    if (!row.nonfinite && !figure) return;
    pending.nonfinite = true;
    // The first one stays; a finite figure of another slot or layer comes before it.
    if (!pending.known && pending.layer_id < 0) {
      pending.value = figure ? *figure : row.nonfinite_value;
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
