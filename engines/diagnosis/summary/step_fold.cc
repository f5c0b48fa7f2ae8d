#include "engines/diagnosis/summary/step_fold.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace mpnanny::summary {
namespace {

void Least(std::optional<double>& into, double value) {
  if (!into || value < *into) into = value;
}
void Greatest(std::optional<double>& into, double value) {
  if (!into || value > *into) into = value;
}

double Mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

Stretch Joined(const Stretch& x, const Stretch& y) {
  Stretch both = x;
  both.steps += y.steps;
  both.loss_sum += y.loss_sum;
  both.loss_squares += y.loss_squares;
  both.norm_sum += y.norm_sum;
  both.norm_squares += y.norm_squares;
  both.norms += y.norms;
  both.loss_max = x.losses == 0   ? y.loss_max
                  : y.losses == 0 ? x.loss_max
                                  : std::max(x.loss_max, y.loss_max);
  both.losses += y.losses;
  both.nonfinite_losses += y.nonfinite_losses;
  if (y.scale) Least(both.scale, *y.scale);
  return both;
}

}  // namespace

void StepFold::Add(const runs::StepRow& row) {
  ++s_.steps;
  if (!s_.first_step) s_.first_step = row.step;
  s_.last_step = row.step;
  if (row.only_in_ring) ++s_.steps_only_in_ring;
  if (row.flags & runs::kSampled) ++s_.sampled_steps;
  if (row.loss) AddLoss(row.step, *row.loss);
  if (row.loss && s_.first_nonfinite_loss == row.step) s_.first_nonfinite_ranks = row.bad_ranks;
  AddScale(row);
  AddToCourse(row);
  if (row.flags & runs::kSkipped) {
    ++s_.skipped_steps;
    ++s_.skipped_at_end;
    if (!s_.first_skipped) s_.first_skipped = row.step;
    s_.last_skipped = row.step;
  } else {
    if (s_.skipped_at_end == s_.steps - 1) s_.skipped_at_start = s_.skipped_at_end;
    s_.skipped_at_end = 0;
  }
  // A log has no flags, but its norm is then not finite.
  if (row.flags & runs::kGradNonFinite || (row.grad_norm && !std::isfinite(*row.grad_norm))) {
    ++s_.nonfinite_gradient_steps;
    ++s_.nonfinite_gradients_at_end;
    if (!s_.first_nonfinite_gradient) s_.first_nonfinite_gradient = row.step;
  } else {
    s_.nonfinite_gradients_at_end = 0;
  }
  if (row.lr) {
    s_.lr_last = row.lr;
    if (std::isfinite(*row.lr)) Greatest(s_.lr_max, *row.lr);
  }
  if (row.grad_norm) {
    s_.grad_norm_last = row.grad_norm;
    if (std::isfinite(*row.grad_norm)) Greatest(s_.grad_norm_max, *row.grad_norm);
  }
  if (row.duration && std::isfinite(*row.duration)) {
    seconds_ += *row.duration;
    ++timed_;
  }
  if (row.peak_memory) s_.peak_memory = std::max(s_.peak_memory.value_or(0), *row.peak_memory);
}

void StepFold::Finish() {
  if (timed_ > 0) s_.mean_duration = seconds_ / static_cast<double>(timed_);
  s_.total_duration = seconds_;
  if (!first_losses_.empty()) s_.loss_start = Mean(first_losses_);
  if (last_losses_.size() > 0) s_.loss_end = Mean(last_losses_.All());
  if (flag_rises_ + flag_falls_ > 0) {
    s_.scale_rises = flag_rises_;
    s_.scale_falls = flag_falls_;
  }
}

void StepFold::AddLoss(int64_t step, double loss) {
  if (!s_.loss_first) {
    s_.loss_first = loss;
    s_.loss_first_step = step;
  }
  s_.loss_last = loss;
  if (!std::isfinite(loss)) {
    ++s_.nonfinite_losses;
    if (!s_.first_nonfinite_loss) s_.first_nonfinite_loss = step;
    return;
  }
  ++s_.finite_losses;
  if (!s_.loss_min || loss < *s_.loss_min) {
    s_.loss_min = loss;
    s_.loss_min_step = step;
  }
  if (first_losses_.size() < kTrendWindow) first_losses_.push_back(loss);
  last_losses_.Push(loss);
}

// Stretches double in length when there are too many of them.
void StepFold::AddToCourse(const runs::StepRow& row) {
  std::vector<Stretch>& course = s_.course;
  if (course.empty() || course.back().steps == stretch_steps_) {
    if (course.size() == 2 * kStretches) {
      for (size_t i = 0; i < kStretches; ++i) course[i] = Joined(course[2 * i], course[2 * i + 1]);
      course.resize(kStretches);
      stretch_steps_ *= 2;
    }
    course.push_back({});
    course.back().first_step = row.step;
  }
  Stretch& here = course.back();
  ++here.steps;
  if (row.loss && std::isfinite(*row.loss)) {
    here.loss_sum += *row.loss;
    here.loss_squares += *row.loss * *row.loss;
    here.loss_max = here.losses == 0 ? *row.loss : std::max(here.loss_max, *row.loss);
    ++here.losses;
  } else if (row.loss) {
    ++here.nonfinite_losses;
  }
  if (row.grad_norm && std::isfinite(*row.grad_norm)) {
    here.norm_sum += *row.grad_norm;
    here.norm_squares += *row.grad_norm * *row.grad_norm;
    ++here.norms;
  }
  if (row.loss_scale && std::isfinite(*row.loss_scale)) Least(here.scale, *row.loss_scale);
}

// Moves are told by the flags; a recording without any flag is told from its values.
void StepFold::AddScale(const runs::StepRow& row) {
  flag_rises_ += row.flags & runs::kScaleRose ? 1 : 0;
  flag_falls_ += row.flags & runs::kScaleFell ? 1 : 0;
  if (!row.loss_scale || !std::isfinite(*row.loss_scale)) return;
  if (s_.scale_last) {
    s_.scale_rises += *row.loss_scale > *s_.scale_last ? 1 : 0;
    s_.scale_falls += *row.loss_scale < *s_.scale_last ? 1 : 0;
  }
  if (!s_.scale_first) s_.scale_first = row.loss_scale;
  s_.scale_last = row.loss_scale;
  Least(s_.scale_min, *row.loss_scale);
  Greatest(s_.scale_max, *row.loss_scale);
}

}  // namespace mpnanny::summary
