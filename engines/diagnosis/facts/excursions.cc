#include "engines/diagnosis/facts/excursions.h"

#include <algorithm>
#include <cmath>

#include "engines/diagnosis/facts/median.h"

namespace mpnanny::diagnosis {
namespace {

constexpr size_t kLossesBefore = 5;  // losses before an excursion can be told
constexpr size_t kNear = 8;          // losses whose median is a level
// An excursion leaves its level by this share of it, by this share of the largest loss so far (a
// solved task has spikes of a thousand times a level of nearly 0), and beyond the noise.
constexpr double kShare = 0.5;
constexpr double kShareOfLargest = 0.2;
constexpr double kMads = 10;
constexpr int64_t kOfHigh = 3;      // losses below that one high loss outweighs
constexpr int64_t kCalmLosses = 3;  // losses back at the level that end one

double MiddleOf(double a, double b, double c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

double Height(const Excursion& one) { return one.peak - one.before; }

}  // namespace

// The least of the medians of three: a curve that falls is at its newest ones, and one that has
// begun to rise slowly is told from where it began.
double ExcursionFinder::Level() const {
  const auto near = losses_.Last(kNear);
  double least = MiddleOf(near[0], near[1], near[2]);
  for (size_t i = 3; i < near.size(); ++i) {
    least = std::min(least, MiddleOf(near[i - 2], near[i - 1], near[i]));
  }
  return least;
}

// Each loss against the middle of its neighbours: a trend is no noise.
double ExcursionFinder::Noise() const {
  const auto all = losses_.All();
  std::vector<double> off;
  for (size_t i = 1; i + 1 < all.size(); ++i) {
    off.push_back(std::fabs(all[i] - (all[i - 1] + all[i + 1]) / 2));
  }
  return Median(off);
}

void ExcursionFinder::Begin(const runs::StepRow& row) {
  const double level = Level();
  const double rise = *row.loss - level;
  if (rise <= kShare * std::fabs(level) || rise <= kShareOfLargest * largest_) return;
  if (rise <= kMads * Noise()) return;
  Excursion one;
  one.before = level;
  one.step = row.step;
  const auto all = losses_.All();
  for (size_t back = 1; back <= all.size() && all[all.size() - back] > level + rise / 8; ++back) {
    one.step = steps_[steps_.size() - back];
  }
  one.peak = *row.loss;
  one.peak_step = row.step;
  one.early = count_ <= kEarlyLosses;
  if (norms_.size() >= kLossesBefore) one.norm_before = Median(norms_.All());
  open_ = one;
  calm_ = high_ = 0;
}

// A record that is high alone may be any batch, unless the curve is so calm that none comes near.
bool ExcursionFinder::Holds() const {
  constexpr double kSpreads = 3;
  if (high_ > 2 * kOfHigh) return true;
  const auto all = losses_.All();
  const auto [low, high] = std::minmax_element(all.begin(), all.end());
  return Height(*open_) > kSpreads * (*high - *low);
}

void ExcursionFinder::Close() {
  if (!Holds()) {
    losses_.Push(open_->peak);  // such losses belong to its level
    steps_.push_back(open_->peak_step);
    open_.reset();
    return;
  }
  found_.push_back(*open_);
  open_.reset();
  if (found_.size() <= kMostExcursions) return;
  found_.erase(std::min_element(
      found_.begin(), found_.end(),
      [](const Excursion& a, const Excursion& b) { return Height(a) < Height(b); }));
}

void ExcursionFinder::Add(const runs::StepRow& row) {
  const bool has_norm = row.grad_norm && std::isfinite(*row.grad_norm);
  if (!row.loss || !std::isfinite(*row.loss)) return;
  ++count_;
  if (!open_ && losses_.size() >= kLossesBefore) Begin(row);
  if (!open_) {
    losses_.Push(*row.loss);
    steps_.push_back(row.step);
    if (steps_.size() > 2 * kLately) {
      steps_.erase(steps_.begin(), steps_.end() - static_cast<ptrdiff_t>(kLately));
    }
    if (has_norm) norms_.Push(*row.grad_norm);
    largest_ = std::max(largest_, std::fabs(*row.loss));
    return;
  }
  // High is what is nearer to the peak than to the level of the newest losses, which a single low
  // one does not move.
  const double level = Median(losses_.Last(kNear));
  const auto is_high = [&](double loss) { return loss > level + (open_->peak - level) / 2; };
  const double last_peak = open_->peak;
  if (*row.loss > open_->peak) {
    open_->peak = *row.loss;
    open_->peak_step = row.step;
  }
  if (has_norm) open_->norm_peak = std::max(open_->norm_peak.value_or(0), *row.grad_norm);
  const bool back = *row.loss < open_->before + Height(*open_) / 4;
  // Each high one counts for it, and each below against it but those that end it.
  if (!back) {
    if (!is_high(last_peak)) high_ = 0;
    high_ += is_high(*row.loss) ? kOfHigh : -1 - calm_;
    calm_ = 0;
  }
  if (back && calm_++ == 0) open_->over = row.step;
  if (calm_ == kCalmLosses) {
    Close();
    return;
  }
  if (row.step - open_->step < kAnotherLevel || calm_ > 0) return;
  open_->over.reset();
  Close();
  losses_ = runs::LastValues(kLately);
  steps_.clear();
}

std::vector<Excursion> ExcursionFinder::Finish() const {
  std::vector<Excursion> all = found_;
  if (open_ && Holds()) {
    all.push_back(*open_);
    if (calm_ == 0) all.back().over.reset();
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Excursion& a, const Excursion& b) { return a.step < b.step; });
  return all;
}

}  // namespace mpnanny::diagnosis
