// Where a course of steps turns: a learning rate that jumps, a loss that is thrown up, a loss scale
// that starts anew. Seen in one pass; memory does not grow with the run.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_TURNS_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_TURNS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "engines/diagnosis/facts/excursions.h"
#include "engines/runs/last_values.h"
#include "engines/runs/steps.h"

namespace mpnanny::diagnosis {

// A value that left what the run had shown before.
struct Jump {
  int64_t step = 0;
  double from = 0, to = 0;
};

// A loss far above those before it.
struct Spike {
  int64_t step = 0;
  double median = 0, value = 0, greatest = 0;  // greatest: until it was over
  std::optional<int64_t> over;              // first step that was back at the level before for good
  std::optional<double> norm_median, norm;  // gradient norm before and at the spike
  double largest_before = 0;                // magnitude of a loss, in the whole run so far
  double range_before = 0;                  // greatest less least loss of the whole run so far
};

// Steps in a row whose gradients were not finite or that were skipped.
struct Burst {
  int64_t first = 0, last = 0, steps = 0;
  // The price of the scaler: its search for a scale at the start, or the scale had risen since the
  // burst before.
  bool scalers_own = false;
  std::optional<double> scale_first, scale_last;
};

// A step of a record that is too short for statistics.
struct ShortStep {
  int64_t step = 0;
  double loss = 0;
  std::optional<double> norm;
};

// Steps whose learning rate is exactly 0, without a break up to the last that shows one.
struct ZeroRate {
  int64_t first = 0, steps = 0;
  std::optional<double> loss_first,
      loss_last;  // means of the first and the last 20 of their losses
};

struct Turns {
  std::vector<Jump> lr_jumps;
  ZeroRate zero_rate;
  int64_t rates = 0;  // steps that show a learning rate
  std::optional<double> greatest_rate;
  int rate_decimals = 0;  // most decimals that a rate was printed with
  std::vector<Spike> spikes;
  std::vector<Jump> scale_restarts;
  std::vector<Burst> bursts;  // the first kMostTurns
  int64_t burst_count = 0;
  std::optional<double> first_norm, last_norm;  // medians of the first and last 20 finite norms
  // Steps whose scaled gradient norm equals that of the step before, of those with a norm.
  int64_t pinned_norms = 0, norms = 0;
  std::optional<double> pinned_at;    // that scaled norm
  std::optional<double> pinned_norm;  // and unscaled
  // The longest row of steps with a finite loss other than 0 and a gradient norm of exactly 0.
  int64_t zero_norms = 0;
  std::optional<int64_t> zero_norms_first;
  bool lived = false;  // some gradient norm was not 0
  int64_t steps = 0;
  std::vector<ShortStep> first_losses;  // the first kShortRecord finite losses
  std::vector<Excursion> excursions;
  // How many finite losses have a neighbour on both sides, and how many of them lie above both or
  // below both.
  int64_t with_neighbours = 0, turning_points = 0;
};
inline constexpr size_t kMostTurns = 16;

// Whether each loss stands for itself, as the noise of batches does: by the test of turning points
// (Kendall and Stuart, The Advanced Theory of Statistics, volume 3). A training that is thrown
// about shows it over several steps.
bool IsScatter(const Turns& turns);
// Whether what looks like spikes is the noise of batches: there are many, and none lasts.
bool SpikesAreNoise(const Turns& turns);
// Up to so many losses a record has no history of its own that noise could be told from.
inline constexpr size_t kShortRecord = 40;

class TurnFinder {
 public:
  static constexpr size_t kLately = 24;    // losses that a level is told from
  static constexpr size_t kHistory = 100;  // gradient norms
  static constexpr size_t kLevel = 20;     // losses that a mean is taken of

  void Add(const runs::StepRow& row);
  Turns Finish() const;

 private:
  void AddLr(const runs::StepRow& row);
  void AddZeroRate(const runs::StepRow& row);
  void AddLoss(const runs::StepRow& row);
  void Keep(const Spike& spike);
  void AddScale(const runs::StepRow& row);
  void AddSkip(const runs::StepRow& row);
  void AddNorm(const runs::StepRow& row);
  void AddNeighbours(double loss);

  Turns turns_;
  ExcursionFinder excursions_;
  std::optional<double> before_, between_;              // the last two finite losses
  runs::LastValues losses_{kLately}, norms_{kHistory};  // finite ones
  std::vector<double> first_norms_;
  runs::LastValues zero_rate_losses_{kLevel};
  std::vector<double> first_zero_rate_losses_;
  std::optional<double> previous_lr_, previous_scale_, previous_norm_;
  std::optional<Burst> burst_;
  double largest_ = 0;                     // magnitude of a loss
  double low_ = 0, high_ = 0, range_ = 0;  // of losses that were no spikes
  int64_t calm_ = 0;    // losses in a row that are back at the level before a spike
  bool rose_ = false;   // the scale, since the last burst
  bool begun_ = false;  // a step was not bad
  bool spiking_ = false;
  int64_t zero_run_ = 0, zero_first_ = 0;
};

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_TURNS_H_
