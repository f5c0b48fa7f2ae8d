// What a run's ranks should agree on, and do not: reads the compared steps, as many as a bounded
// number of rows allows, and judges them.
//
// Plain values; free function of one call.
#ifndef MPNANNY_ENGINES_RANKS_TRUTHS_H_
#define MPNANNY_ENGINES_RANKS_TRUTHS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "engines/ranks/finding.h"
#include "engines/runs/run.h"

namespace mpnanny::ranks {

struct Truths {
  std::vector<Finding> findings;       // by their first step
  size_t compared = 0;                 // steps that were read
  size_t left_out = 0;                 // steps that ranks recorded, and that were not read
  std::optional<int64_t> first, last;  // of those that were read
  std::vector<int64_t> ranks;          // ascending
};

// Nothing is compared of a run that one rank is read of.
Result<Truths> ReadTruths(const runs::Source& source);

}  // namespace mpnanny::ranks

#endif  // MPNANNY_ENGINES_RANKS_TRUTHS_H_
