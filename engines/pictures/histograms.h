// How the magnitudes of a tensor are spread over powers of two, at some steps of the run: what of it
// a narrower format could hold.
//
// Plain values; a free function.
#ifndef MPNANNY_ENGINES_PICTURES_HISTOGRAMS_H_
#define MPNANNY_ENGINES_PICTURES_HISTOGRAMS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engines/runs/run.h"

namespace mpnanny::pictures {

struct Histogram {
  int64_t step = 0;
  std::string kind;                               // activation | gradient | weight
  std::string layer;                              // raw
  int64_t zeros = 0;
  std::vector<std::pair<int, int64_t>> counts;    // 2^e up to 2^(e+1): how many; ascending, none 0
};

inline constexpr size_t kHistogramLayers = 40, kHistogramSteps = 8;

// Of the layers in `wanted` (ids, the most important first) and then of others, at most
// kHistogramLayers, at steps spread over those that recorded exponents.
Result<std::vector<Histogram>> ReadHistograms(const runs::Source& source,
                                              const std::vector<int64_t>& wanted);

}  // namespace mpnanny::pictures

#endif  // MPNANNY_ENGINES_PICTURES_HISTOGRAMS_H_
