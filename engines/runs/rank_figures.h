// What ranks of one training are compared by (tables rank_figures and collective), step by step
// over all ranks that are read.
//
// Plain values and free functions of one call. A file of an earlier monitor, or of a run of one
// process, has none.
#ifndef MPNANNY_ENGINES_RUNS_RANK_FIGURES_H_
#define MPNANNY_ENGINES_RUNS_RANK_FIGURES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engines/runs/run.h"

namespace mpnanny::runs {

// rank_figures.what: the moments of a tensor in a step, in their order.
enum class Moment : int64_t {
  kParameter = 0,      // before the update
  kBuffer = 1,         // before the update
  kDerived = 2,        // a gradient as this rank derived it
  kAfterBackward = 3,  // after the step's last backward pass
  kClipped = 4,        // as it is clipped
  kUsed = 5,           // as the optimizer gets it
};
inline constexpr size_t kMoments = 6;

struct TensorFigure {
  int64_t hash = 0;
  int64_t numel = 0, nonfinite = 0;
  std::optional<int64_t> first;  // place of the first element in the whole; absent: in no one piece
  std::string holders;           // "0-3": who should hold the same, by the program; "": not said
  double l2 = 0, a = 0, b = 0;   // the norm, and a sketch that is linear in the elements
  bool has_norm = true;
};

// One rank's tensor in one step; absent: there was no such moment.
struct RankTensor {
  std::optional<TensorFigure> at[kMoments];
  const std::optional<TensorFigure>& operator[](Moment moment) const {
    return at[static_cast<size_t>(moment)];
  }
  // The newest gradient up to `last`; null where there is none.
  const TensorFigure* Gradient(Moment last = Moment::kUsed) const;
};

struct RankCollective {
  int64_t rank = 0, sequence = 0;
  std::string operation, reduction, ranks, source, phase;
  std::string tensor;  // the parameter or buffer; "": another
  bool gradient = false;
  int64_t numel = 0, nonfinite_in = 0, nonfinite_out = 0, hash_in = 0, hash_out = 0;
  std::optional<double> l2_in, l2_out, value_in, value_out, kept;
};

struct RankNorm {  // that gradients were clipped by
  int64_t rank = 0;
  double norm = 0;
};

struct RankStep {
  int64_t step = 0;
  std::map<std::string, std::map<int64_t, RankTensor>> tensors;  // by name, then by rank
  std::vector<RankCollective> collectives;                       // by rank, then in their order
  std::vector<RankNorm> norms;
};

// The compared steps in ascending order.
Result<std::vector<int64_t>> ComparedSteps(const Source& source);

// Of one of them all ranks' figures.
Result<RankStep> ReadRankStep(const Source& source, int64_t step);

// Rows of one step of one rank: what a step costs.
Result<int64_t> CountRankRows(const Source& source, int64_t step);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_RANK_FIGURES_H_
