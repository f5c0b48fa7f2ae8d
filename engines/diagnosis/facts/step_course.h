// Facts that follow from the steps alone: how the loss scale, the loss and the gradient norm went,
// and the alerts that a run without monitor would have had.
//
// One pass in ascending order; memory does not grow with the run. Owned by one call.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_STEP_COURSE_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_STEP_COURSE_H_

#include <optional>
#include <string>
#include <vector>

#include "engines/diagnosis/facts/facts.h"
#include "engines/runs/last_values.h"

namespace mpnanny::diagnosis {

// How the loss scale goes, step by step.
class ScaleCourse {
 public:
  void Add(const runs::StepRow& row);
  ScaleTrack Finish() const;

 private:
  void Fall(double from, double to, int64_t step);

  ScaleTrack track_;
  std::optional<double> previous_;
  bool flagged_ = false;  // moves are told by flags; until one is seen, by values
  bool starting_ = true;  // every step so far was skipped: the scaler looks for its scale
  int64_t falls_ = 0, startup_falls_ = 0, skip_run_ = 0, low_run_ = 0, stuck_run_ = 0;
  int64_t low_from_ = 0;   // first step of low_run_
  bool low_fell_ = false;  // the scale came down to it, or in it
  int64_t low_skips_ = 0;  // of its steps
  std::optional<int64_t> skip_first_;
  double run_from_ = 0, startup_from_ = 0, startup_to_ = 0;
};

class StepCourse {
 public:
  static constexpr size_t kHistory = 200;  // values that medians are taken over

  void Add(const runs::StepRow& row);
  // Fills scale, course, bad_at_end and good_steps_after. The course ends at the first non-finite
  // loss.
  void Finish(Facts& facts) const;

  // Alerts that the steps themselves prove: LOSS_NAN, LOSS_SPIKE, GRAD_EXPLOSION and those of the
  // loss scale, each once, at its first step.
  std::vector<SeenAlert> DerivedAlerts() const;

  // The step of the first loss that is not finite, in whole or in part; else the first of an
  // unbroken row of steps with non-finite gradients that lasts to the end and that no scaler
  // explains: longer than its search for a scale at the beginning or than a row of skips later, or
  // two steps that show no skip, or one with a NaN norm whose loss is logged as 0.
  std::optional<int64_t> FirstBadStep() const;
  // True if the course itself was bad from the loss on (against: from the gradients on).
  bool LossIsBad() const { return first_bad_loss_ || first_bad_part_; }
  // True if the bad gradients at the end come with a loss of 0: some loops log 0 for NaN.
  bool LossIsZeroed() const { return zeroed_; }
  // True if some step shows its gradient norm. One that was skipped tells of its gradients without
  // a printed norm.
  bool SawNorm() const { return saw_norm_; }

 private:
  bool GradientsAreBad() const;
  void AddGradients(const runs::StepRow& row);
  void AddLoss(const runs::StepRow& row);
  void AddNorm(const runs::StepRow& row);
  void AddZero(const runs::StepRow& row);

  ScaleCourse scale_;
  Course course_;
  runs::LastValues losses_{kHistory}, norms_{kHistory};  // finite ones
  std::optional<int64_t> first_bad_loss_, first_bad_part_, bad_gradients_first_;
  int64_t good_after_ = 0, bad_gradient_run_ = 0;
  int64_t unskipped_ = 0;  // of that run, steps that show no skip
  bool was_good_ = false;  // some step had good gradients
  bool last_loss_bad_ = false, zeroed_ = false, saw_norm_ = false;
  std::optional<SeenAlert> loss_nan_, spike_, explosion_;
  std::optional<int64_t> last_step_;
  std::optional<double> last_scale_;  // of that step
};

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_STEP_COURSE_H_
