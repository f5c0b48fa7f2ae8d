// What a log shows of success, and what of standing still: which figures moved the good way clearly
// and kept it, which scores stay at nothing, whether the loss moves at all. A healthy run has to be
// earned by the first.
//
// Plain values; pure functions.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_PROGRESS_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_PROGRESS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engines/diagnosis/facts/block_series.h"
#include "engines/diagnosis/summary/summary.h"
#include "engines/runs/named_figures.h"

namespace mpnanny::diagnosis {

// A figure that moved the good way beyond its scatter, and ends near its best.
struct Improved {
  std::string name;            // raw; "" for the training's loss
  double first = 0, last = 0;  // means over the first and the last tenth of its values
  int64_t count = 0;
};

// A figure that does not move.
struct Still {
  std::string name;             // raw; "" for the training's loss
  double low = 0, high = 0;     // between which it stays …
  int64_t count = 0, from = 0;  // … with so many values from that step on
};

struct Progress {
  std::optional<Improved> loss;       // the training's
  std::string loss_name;              // raw, as the log has it; "" for what is simply the loss
  std::vector<Improved> evaluations;  // their losses, perplexities, error rates
  std::vector<Improved> scores;
  int64_t scores_shown = 0;        // names of scores with enough values
  bool rewarded = false;           // it learns by reward: its loss need not fall
  std::vector<Still> low_scores;   // scores that stay next to nothing
  std::vector<Still> zero_scores;  // exactly 0 in each of three values or more
  int64_t scores_seen = 0;         // names of scores with three values or more
  // A part of the loss that is exactly 0 to the end after it was not, while the loss is not.
  std::optional<Still> ended_part;
  std::optional<Still>
      still_loss;  // from half of the record or earlier, and little below its start
  bool Any() const { return (loss && !rewarded) || !evaluations.empty() || !scores.empty(); }
};

// The name under which the log has the loss that was read: of the figures with its first, last and
// least value the best named. "" if it is simply called the loss, or none is found.
std::string NameOfLoss(const summary::Summary& steps, std::span<const runs::NamedSeries> figures);

Progress FindProgress(const BlockSeries& losses, std::span<const runs::NamedSeries> figures);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_PROGRESS_H_
