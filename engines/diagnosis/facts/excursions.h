// Where the loss leaves its level and comes back, early in a run or late: what a person sees in its
// curve at a glance, and what a median over many steps does not while the loss still falls.
//
// A level is told from the newest losses alone, so that the steep beginning of a training hides
// nothing. One pass in ascending order; memory does not grow with the run.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_EXCURSIONS_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_EXCURSIONS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "engines/runs/last_values.h"
#include "engines/runs/steps.h"

namespace mpnanny::diagnosis {

struct Excursion {
  int64_t step = 0, peak_step = 0;               // where it began to rise, where it was highest
  double before = 0, peak = 0;                   // the level that it left, the highest loss
  std::optional<double> norm_before, norm_peak;  // gradient norm: median before, highest during it
  std::optional<int64_t> over;                   // first step that was back at the level for good
  bool early = false;                            // among the first kEarlyLosses
};
inline constexpr size_t kMostExcursions = 4;
inline constexpr int64_t kEarlyLosses = 100;
// Steps after which a loss that is not back is at another level.
inline constexpr int64_t kAnotherLevel = 100;

class ExcursionFinder {
 public:
  void Add(const runs::StepRow& row);
  // The highest ones, in order of time.
  std::vector<Excursion> Finish() const;

 private:
  void Begin(const runs::StepRow& row);
  void Close();
  bool Holds() const;
  double Level() const;
  double Noise() const;

  static constexpr size_t kLately = 24;
  std::vector<Excursion> found_;
  std::optional<Excursion> open_;
  runs::LastValues losses_{kLately}, norms_{kLately};  // finite ones, outside of excursions
  std::vector<int64_t> steps_;                         // of losses_, as many
  double largest_ = 0;                                 // magnitude of a loss
  int64_t count_ = 0, calm_ = 0, high_ = 0;  // high_: losses of the open one that are not back
};

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_EXCURSIONS_H_
