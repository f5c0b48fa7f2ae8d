// The distribution of one tensor's magnitudes, told from its recorded exponents: what each format
// would lose of it, and by what it would best be scaled.
//
// Plain values and pure functions.
#ifndef MPNANNY_TOOLS_QUERY_STATS_DISTRIBUTION_H_
#define MPNANNY_TOOLS_QUERY_STATS_DISTRIBUTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engines/runs/samples.h"
#include "numerics/format.h"

namespace mpnanny::query_stats {

// Exponents are those of the values as they were held: gradients may stand under the loss scale,
// while their absmax is written unscaled.
struct Distribution {
  runs::TensorRow row;
  runs::Exponents counts{};
  // What the held values are multiplied by against the written figures: the loss scale, or 1.
  // nullopt: neither fits.
  std::optional<double> held_factor = 1.0;

  int64_t total = 0;            // all counts
  int64_t zeros = 0, tiny = 0;  // tiny: FP32 subnormals
  int64_t nonfinite = 0;
  std::optional<int> lowest, highest;  // exponents of the normal values that are there
};

Distribution MakeDistribution(const runs::TensorRow& row, const runs::Exponents& counts,
                              std::optional<double> loss_scale);

// How many elements have this exponent (-126 … 127): 2^exponent <= |x| < 2^(exponent + 1).
int64_t CountAt(const Distribution& distribution, int exponent);

// What one format would do to the values as they were held. Shares of all elements.
struct FormatFit {
  Format format = Format::kFp16;
  double under = 0;         // not zero, become zero
  double subnormal = 0;     // become subnormal
  double over = 0;          // finite, become infinite (NaN in E4M3)
  double over_at_most = 0;  // with those whose exponent is the format's largest: the bits decide
  // 2^best_shift times the held values leaves a factor of two to four below the maximum: nothing
  // overflows and as little as possible underflows. nullopt: there is nothing but zeros.
  std::optional<int> best_shift;
  double under_at_best = 0;
};
std::vector<FormatFit> FitFormats(const Distribution& distribution);

// Rows of the text plot, largest exponent first; limits of FP16, BF16, E4M3 and E5M2 stand at the
// exponent where they lie.
std::string Plot(const Distribution& distribution);

}  // namespace mpnanny::query_stats

#endif  // MPNANNY_TOOLS_QUERY_STATS_DISTRIBUTION_H_
