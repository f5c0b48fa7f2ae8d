#include "engines/diagnosis/facts/turns.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "engines/diagnosis/facts/median.h"

namespace mpnanny::diagnosis {
namespace {

constexpr size_t kEnoughSteps = 12;  // losses before a spike can be told
// A loss is thrown up where it is above everything of its history by this share of the level, and
// beyond the noise: ten median distances.
constexpr double kSpikeShare = 0.5;
constexpr double kLossSpikeMads = 10;
constexpr int64_t kCalm = 3;  // losses back at the level that end a spike
// Warm-up and restarts of a cosine never pass the greatest rate before by so much in one step.
constexpr double kLrJump = 2.5;
constexpr int64_t kLrSteps = 8;  // before that many steps any rise may be a warm-up
// A scaler doubles; a greater rise in one step is another scaler or a state that was lost.
constexpr double kScaleRestart = 3.9;
constexpr double kPinned = 0.002;  // relative: a norm that was set, not measured

// Above everything of late by a share of the level, and beyond the noise.
bool IsSpike(std::span<const double> lately, double loss) {
  // Mostly one of the newest is as great: nothing is sorted then.
  if (std::any_of(lately.rbegin(), lately.rend(), [&](double value) { return value >= loss; })) {
    return false;
  }
  const double median = Median(lately);
  const double greatest = *std::max_element(lately.begin(), lately.end());
  if (loss <= greatest + kSpikeShare * std::fabs(median)) return false;
  return loss > median + kLossSpikeMads * MedianDistance(lately, median);
}

// Of a value as it was written: 4 of 0.0012.
int DecimalsOf(double value) {
  constexpr int kMost = 17;
  constexpr double kRounding = 1e-9;
  double scaled = value;
  for (int decimals = 0; decimals < kMost; ++decimals, scaled *= 10) {
    if (scaled >= 0.5 && std::fabs(scaled - std::round(scaled)) <= kRounding * scaled) {
      return decimals;
    }
  }
  return kMost;
}

double Mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

void TurnFinder::Add(const runs::StepRow& row) {
  ++turns_.steps;
  AddLr(row);
  AddScale(row);
  AddSkip(row);
  AddLoss(row);
  AddNorm(row);
  excursions_.Add(row);
}

void TurnFinder::AddNorm(const runs::StepRow& row) {
  if (!row.grad_norm || !std::isfinite(*row.grad_norm)) return;
  if (*row.grad_norm > 0) {
    turns_.lived = true;
    zero_run_ = 0;
  } else if (row.loss && *row.loss == 0) {
    zero_run_ = 0;  // there is nothing to learn from
  } else if (!(row.flags & runs::kSkipped)) {
    if (zero_run_++ == 0) zero_first_ = row.step;
    if (zero_run_ > turns_.zero_norms) {
      turns_.zero_norms = zero_run_;
      turns_.zero_norms_first = zero_first_;
    }
  }
  norms_.Push(*row.grad_norm);
  if (first_norms_.size() < 20) first_norms_.push_back(*row.grad_norm);
  ++turns_.norms;
  const double scaled = *row.grad_norm * row.loss_scale.value_or(1);
  if (previous_norm_ && scaled > 0 && std::fabs(scaled - *previous_norm_) < kPinned * scaled) {
    ++turns_.pinned_norms;
    turns_.pinned_at = scaled;
    turns_.pinned_norm = row.grad_norm;
  }
  previous_norm_ = scaled;
}

void TurnFinder::AddLr(const runs::StepRow& row) {
  if (!row.lr || !std::isfinite(*row.lr) || *row.lr < 0) return;
  const std::optional<double>& greatest = turns_.greatest_rate;
  if (greatest && turns_.rates >= kLrSteps && *greatest > 0 && *row.lr > kLrJump * *greatest &&
      turns_.lr_jumps.size() < kMostTurns) {
    turns_.lr_jumps.push_back({row.step, *greatest, *row.lr});
  }
  ++turns_.rates;
  turns_.greatest_rate = std::max(greatest.value_or(0), *row.lr);
  if (*row.lr == 0) {
    AddZeroRate(row);
  } else {
    turns_.zero_rate = {};
    if (row.lr != previous_lr_) {
      turns_.rate_decimals = std::max(turns_.rate_decimals, DecimalsOf(*row.lr));
    }
  }
  previous_lr_ = row.lr;
}

void TurnFinder::AddZeroRate(const runs::StepRow& row) {
  if (turns_.zero_rate.steps++ == 0) {
    turns_.zero_rate.first = row.step;
    first_zero_rate_losses_.clear();
    zero_rate_losses_ = runs::LastValues(kLevel);
  }
  if (!row.loss || !std::isfinite(*row.loss)) return;
  if (first_zero_rate_losses_.size() < kLevel) first_zero_rate_losses_.push_back(*row.loss);
  zero_rate_losses_.Push(*row.loss);
}

void TurnFinder::AddLoss(const runs::StepRow& row) {
  if (!row.loss) return;
  const double loss = *row.loss;
  if (!std::isfinite(loss)) {
    calm_ = 0;
    return;
  }
  AddNeighbours(loss);
  if (turns_.first_losses.size() < kShortRecord) {
    turns_.first_losses.push_back({row.step, loss, row.grad_norm});
  }
  if (spiking_) {
    Spike& spike = turns_.spikes.back();
    spike.greatest = std::max(spike.greatest, loss);
    const bool back = loss < spike.median + (spike.value - spike.median) / 4;
    calm_ = back ? calm_ + 1 : 0;
    if (calm_ == kCalm) {
      spike.over = row.step - kCalm + 1;
      spiking_ = false;
    }
    return;  // what is thrown up is no measure of the level
  }
  // Of late: a loss that falls back to where it began has left its level as well.
  if (losses_.size() >= kEnoughSteps && IsSpike(losses_.All(), loss)) {
    Spike spike{row.step, Median(losses_.All()), loss,     loss,  {},
                {},       row.grad_norm,         largest_, range_};
    if (norms_.size() >= kEnoughSteps) spike.norm_median = Median(norms_.All());
    Keep(spike);
    return;
  }
  losses_.Push(loss);
  largest_ = std::max(largest_, std::fabs(loss));
  low_ = losses_.size() == 1 ? loss : std::min(low_, loss);
  high_ = losses_.size() == 1 ? loss : std::max(high_, loss);
  range_ = high_ - low_;
}

// Room for the highest ones: a noisy loss has many small ones.
void TurnFinder::Keep(const Spike& spike) {
  const auto height = [](const Spike& one) { return one.value - one.median; };
  if (turns_.spikes.size() == kMostTurns) {
    const auto least =
        std::min_element(turns_.spikes.begin(), turns_.spikes.end(),
                         [&](const Spike& a, const Spike& b) { return height(a) < height(b); });
    if (height(*least) >= height(spike)) return;
    turns_.spikes.erase(least);
  }
  turns_.spikes.push_back(spike);
  spiking_ = true;
  calm_ = 0;
}

void TurnFinder::AddScale(const runs::StepRow& row) {
  if (!row.loss_scale || !std::isfinite(*row.loss_scale)) return;
  const double scale = *row.loss_scale;
  if (previous_scale_ && scale >= kScaleRestart * *previous_scale_ &&
      turns_.scale_restarts.size() < kMostTurns) {
    turns_.scale_restarts.push_back({row.step, *previous_scale_, scale});
  }
  rose_ = rose_ || (previous_scale_ && scale > *previous_scale_);
  previous_scale_ = scale;
}

void TurnFinder::AddSkip(const runs::StepRow& row) {
  const bool bad = (row.flags & (runs::kSkipped | runs::kGradNonFinite)) ||
                   (row.grad_norm && !std::isfinite(*row.grad_norm));
  if (!bad) {
    begun_ = true;
    if (burst_ && turns_.bursts.size() < kMostTurns) turns_.bursts.push_back(*burst_);
    burst_.reset();
    return;
  }
  if (!burst_) {
    burst_ = Burst{row.step, row.step, 0, (rose_ || !begun_) && row.loss_scale, row.loss_scale, {}};
    rose_ = false;
    ++turns_.burst_count;
  }
  burst_->last = row.step;
  ++burst_->steps;
  burst_->scale_last = row.loss_scale;
}

void TurnFinder::AddNeighbours(double loss) {
  if (before_ && between_) {
    ++turns_.with_neighbours;
    turns_.turning_points +=
        (*between_ > *before_ && *between_ > loss) || (*between_ < *before_ && *between_ < loss);
  }
  before_ = between_;
  between_ = loss;
}

bool IsScatter(const Turns& turns) {
  constexpr int64_t kEnough = 60;
  constexpr double kDeviations = 3;
  if (turns.with_neighbours < kEnough) return false;
  const auto n = static_cast<double>(turns.with_neighbours + 2);
  const double expected = 2 * (n - 2) / 3, deviation = std::sqrt((16 * n - 29) / 90);
  return std::fabs(static_cast<double>(turns.turning_points) - expected) < kDeviations * deviation;
}

bool SpikesAreNoise(const Turns& turns) {
  constexpr size_t kMany = 8;
  return turns.spikes.size() >= kMany && IsScatter(turns);
}

Turns TurnFinder::Finish() const {
  Turns turns = turns_;
  turns.excursions = excursions_.Finish();
  if (burst_ && turns.bursts.size() < kMostTurns) turns.bursts.push_back(*burst_);
  if (turns.zero_rate.steps > 0 && !first_zero_rate_losses_.empty()) {
    turns.zero_rate.loss_first = Mean(first_zero_rate_losses_);
    turns.zero_rate.loss_last = Mean(zero_rate_losses_.All());
  }
  if (!first_norms_.empty()) turns.first_norm = Median(first_norms_);
  if (norms_.size() >= kEnoughSteps) {
    turns.last_norm = Median(norms_.Last(12));
  }
  if (SpikesAreNoise(turns)) turns.excursions.clear();
  return turns;
}

}  // namespace mpnanny::diagnosis
