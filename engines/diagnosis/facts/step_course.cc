#include "engines/diagnosis/facts/step_course.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engines/diagnosis/facts/median.h"
#include "engines/diagnosis/summary/stability.h"
#include "engines/runs/show.h"
#include "numerics/alert_bounds.h"

namespace mpnanny::diagnosis {
namespace {

constexpr size_t kWindow = 10;  // values whose mean is a level
constexpr size_t kEnough = 20;  // values before a jump can be told

double MeanOfLast(const runs::LastValues& values, size_t count) {
  const auto last = values.Last(count);
  return std::accumulate(last.begin(), last.end(), 0.0) / static_cast<double>(last.size());
}

SeenAlert Derived(AlertType type, Severity severity, Phase phase, int64_t step,
                  std::optional<double> value, std::optional<double> threshold,
                  std::string message) {
  SeenAlert alert;
  alert.derived = true;
  alert.row.type = type;
  alert.row.severity = severity;
  alert.row.phase = phase;
  alert.row.step = step;
  alert.row.value = value;
  alert.row.threshold = threshold;
  alert.row.message = std::move(message);
  return alert;
}

}  // namespace

void StepCourse::Add(const runs::StepRow& row) {
  scale_.Add(row);
  if (row.loss) AddLoss(row);
  AddZero(row);
  if (row.grad_norm && !first_bad_loss_) AddNorm(row);
  if (row.lr && !first_bad_loss_) course_.lr_before = row.lr;
  AddGradients(row);
  if (first_bad_loss_ && row.step > *first_bad_loss_ && row.loss && std::isfinite(*row.loss) &&
      !(row.flags & runs::kSkipped)) {
    ++good_after_;
  }
  saw_norm_ = saw_norm_ || (row.grad_norm && !(row.flags & runs::kSkipped));
  last_step_ = row.step;
  last_scale_ = row.loss_scale;
}

void StepCourse::AddGradients(const runs::StepRow& row) {
  const bool bad_norm = row.grad_norm && !std::isfinite(*row.grad_norm);
  if (!bad_norm && !(row.flags & (runs::kGradNonFinite | runs::kSkipped))) {
    bad_gradient_run_ = unskipped_ = 0;
    zeroed_ = false;
    was_good_ = true;
    return;
  }
  if (bad_gradient_run_++ == 0) bad_gradients_first_ = row.step;
  // A log without a word about the skip shows it by the fall of the scale one row later.
  const bool fell = last_scale_ && row.loss_scale && *row.loss_scale < *last_scale_;
  if (fell && unskipped_ > 0) --unskipped_;
  if (!(row.flags & (runs::kSkipped | runs::kScaleFell))) ++unskipped_;
  zeroed_ = zeroed_ || (row.grad_norm && std::isnan(*row.grad_norm) && row.loss && *row.loss == 0 &&
                        !(row.flags & runs::kSkipped));
}

// A loss of exactly 0 whose gradients are not known to live.
void StepCourse::AddZero(const runs::StepRow& row) {
  if (!row.loss) return;
  const bool lives = row.grad_norm && std::isfinite(*row.grad_norm) && *row.grad_norm > 0;
  if (*row.loss != 0 || lives) {
    course_.zero_losses = 0;
    return;
  }
  if (course_.zero_losses++ == 0) course_.zero_from = row.step;
}

bool StepCourse::GradientsAreBad() const {
  constexpr int64_t kLaterSkips = summary::kStartupSkips / 2;
  return unskipped_ >= 2 || zeroed_ ||
         bad_gradient_run_ > (was_good_ ? kLaterSkips : summary::kStartupSkips);
}

void StepCourse::AddLoss(const runs::StepRow& row) {
  const double loss = *row.loss;
  last_loss_bad_ = !std::isfinite(loss);
  if (last_loss_bad_) {
    if (!first_bad_loss_) {
      first_bad_loss_ = row.step;
      loss_nan_ = Derived(AlertType::kLossNan, Severity::kError, Phase::kLoss, row.step, loss, {},
                          "the loss is " + runs::Number(loss));
    }
    return;
  }
  if (first_bad_loss_) return;
  if (!first_bad_part_ && (row.flags & (runs::kLossNan | runs::kLossInf))) {
    first_bad_part_ = row.step;
  }
  // The mean of the last 20 is cheap and decides for almost every step that it is no spike.
  if (!spike_ && losses_.size() >= kEnough && loss > 2 * std::fabs(MeanOfLast(losses_, kEnough))) {
    const double median = Median(losses_.All());
    const double limit = median + kOutlierMads * MedianDistance(losses_.All(), median);
    if (loss > limit && loss > 2 * std::fabs(median)) {
      spike_ = Derived(
          AlertType::kLossSpike, Severity::kWarning, Phase::kLoss, row.step, loss, limit,
          "the loss jumped to " + runs::Number(loss) + ", its median was " + runs::Number(median));
    }
  }
  ++course_.finite_losses;
  losses_.Push(loss);
  const double level = MeanOfLast(losses_, kWindow);
  course_.loss_before = level;
  if (!course_.loss_low || level < *course_.loss_low) {
    course_.loss_low = level;
    course_.loss_rise_from = row.step;
    course_.loss_greatest = loss;
    if (norms_.size() > 0) course_.norm_at_low = MeanOfLast(norms_, kWindow);
  }
  course_.loss_greatest = std::max(*course_.loss_greatest, loss);
}

void StepCourse::AddNorm(const runs::StepRow& row) {
  const double norm = *row.grad_norm;
  if (!std::isfinite(norm)) return;
  if (!explosion_ && norms_.size() >= kEnough && norm > 10 * MeanOfLast(norms_, kEnough)) {
    const double median = Median(norms_.All());
    // To a run that has all but converged a hard batch is as far from the median, and not beyond
    // what the run has had before.
    if (median > 0 && norm > kExplosionRatio * median && norm > course_.norm_greatest.value_or(0)) {
      explosion_ = Derived(AlertType::kGradExplosion, Severity::kError, Phase::kBackward, row.step,
                           norm, kExplosionRatio * median,
                           "the gradient norm jumped to " + runs::Number(norm) +
                               ", its median was " + runs::Number(median));
    }
  }
  norms_.Push(norm);
  course_.norm_greatest = std::max(course_.norm_greatest.value_or(norm), norm);
}

std::optional<int64_t> StepCourse::FirstBadStep() const {
  if (first_bad_part_) return first_bad_part_;  // never after the first bad loss
  if (first_bad_loss_) return first_bad_loss_;
  if (GradientsAreBad()) return bad_gradients_first_;
  return std::nullopt;
}

void StepCourse::Finish(Facts& facts) const {
  facts.scale = scale_.Finish();
  facts.course = course_;
  if (norms_.size() > 0) {
    facts.course.norm_median = Median(norms_.All());
    const auto last = norms_.Last(kWindow);
    facts.course.norm_before = *std::max_element(last.begin(), last.end());
  }
  facts.good_steps_after = good_after_;
  facts.bad_at_end =
      last_loss_bad_ || GradientsAreBad() || bad_gradient_run_ > summary::kStartupSkips / 2;
}

std::vector<SeenAlert> StepCourse::DerivedAlerts() const {
  std::vector<SeenAlert> alerts;
  for (const auto& alert : {loss_nan_, spike_, explosion_}) {
    if (alert) alerts.push_back(*alert);
  }
  const ScaleTrack scale = scale_.Finish();
  const int64_t step = scale.first_fall.value_or(last_step_.value_or(0));
  if (scale.declining) {
    alerts.push_back(Derived(AlertType::kLossScaleDecline, Severity::kWarning, Phase::kOptimizer,
                             step, scale.fall_to, {},
                             "the loss scale fell " + runs::Count(scale.longest_fall_run, "time") +
                                 " without a rise, from " + runs::Number(scale.fall_from) + " to " +
                                 runs::Number(scale.fall_to)));
  }
  if (scale.collapsed) {
    alerts.push_back(Derived(AlertType::kLossScaleCollapse, Severity::kError, Phase::kOptimizer,
                             scale.collapsed_from.value_or(step), 1.0, 1.0,
                             "the loss scale stayed at 1 or below for 20 steps or more"));
  }
  if (scale.longest_skip_run > summary::kStartupSkips && scale.longest_skip_first) {
    alerts.push_back(
        Derived(AlertType::kStepSkipped, Severity::kWarning, Phase::kOptimizer,
                *scale.longest_skip_first, static_cast<double>(scale.longest_skip_run), {},
                runs::Count(scale.longest_skip_run, "step") + " in a row were skipped"));
  }
  std::stable_sort(alerts.begin(), alerts.end(),
                   [](const SeenAlert& a, const SeenAlert& b) { return a.row.step < b.row.step; });
  return alerts;
}

}  // namespace mpnanny::diagnosis
