// Folds the steps of a run, one after the other, into the figures of a Summary: of a monitor's run
// or of a log's rows.
//
// Owned by one call; memory does not grow with the run.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_STEP_FOLD_H_
#define MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_STEP_FOLD_H_

#include <cstdint>
#include <vector>

#include "engines/diagnosis/summary/summary.h"
#include "engines/runs/last_values.h"
#include "engines/runs/steps.h"

namespace mpnanny::summary {

class StepFold {
 public:
  static constexpr size_t kTrendWindow = 20;  // losses that a mean is taken of

  explicit StepFold(Summary& summary) : s_(summary) {}
  void Add(const runs::StepRow& row);  // in ascending order of step
  void Finish();

 private:
  void AddLoss(int64_t step, double loss);
  void AddScale(const runs::StepRow& row);
  void AddToCourse(const runs::StepRow& row);

  Summary& s_;  // borrowed
  std::vector<double> first_losses_;
  runs::LastValues last_losses_{kTrendWindow};
  double seconds_ = 0;
  int64_t timed_ = 0;
  int64_t flag_rises_ = 0, flag_falls_ = 0;
  int64_t stretch_steps_ = 1;  // of one stretch of the course
};

}  // namespace mpnanny::summary

#endif  // MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_STEP_FOLD_H_
