// One layer's statistics on every rank of a run: what the deciding rank's alone do not tell.
//
// Free function of one call.
#ifndef MPNANNY_ENGINES_RUNS_RANK_SAMPLES_H_
#define MPNANNY_ENGINES_RUNS_RANK_SAMPLES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engines/runs/samples.h"

namespace mpnanny::runs {

// Calls `visit` with the rows of the layer of this name at these steps (ascending) of each rank
// that has it, in no order of ranks; `columns` as SampleReader has them, `kinds` bits 1 << kind.
Result<void> ForEachRankRow(const Source& source, const std::string& layer,
                            const std::vector<int64_t>& steps, uint32_t kinds,
                            const std::vector<std::string_view>& columns,
                            const std::function<void(int64_t rank, const TensorRow&)>& visit);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_RANK_SAMPLES_H_
