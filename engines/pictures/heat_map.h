// Layers × steps: the samples of a run as tables of one figure each, with a column for each stretch
// of samples that keeps the worst of it.
//
// Plain values; a free function. Memory is bounded by kMostCells.
#ifndef MPNANNY_ENGINES_PICTURES_HEAT_MAP_H_
#define MPNANNY_ENGINES_PICTURES_HEAT_MAP_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/result.h"
#include "engines/runs/run.h"

namespace mpnanny::pictures {

inline constexpr float kNoFigure = std::numeric_limits<float>::quiet_NaN();

// One figure of one kind of tensor; infinite where a tensor held NaN or Inf.
struct HeatMap {
  std::string kind;            // activation, gradient, weight, update, shadow_forward, …
  std::string figure;          // absmax, rms, zeros, underflow, frozen, error
  std::vector<float> cells;    // rows × columns; kNoFigure where nothing was recorded
};

struct HeatMaps {
  std::vector<int64_t> first_steps, last_steps;  // of the columns
  std::vector<int64_t> layer_ids;                // of the rows, in the model's order
  std::vector<std::string> layers;               // raw names
  std::vector<std::string> dtypes;               // of their outputs, the last seen; "" for none
  std::vector<HeatMap> maps;                     // those with a figure at all
  size_t layers_left_out = 0;
  size_t samples_read = 0;
};

inline constexpr size_t kColumns = 64, kRows = 1000, kMostCells = 300'000;

// What has to be there, whatever has to be left out of a large run.
struct HeatMapWish {
  std::vector<int64_t> steps;       // the first samples from these steps on
  std::vector<std::string> layers;  // as answers show their names
};

// Samples are read at steps spread evenly over the run, beside those that are wished for.
Result<HeatMaps> ReadHeatMaps(const runs::Source& source, const HeatMapWish& wish);

}  // namespace mpnanny::pictures

#endif  // MPNANNY_ENGINES_PICTURES_HEAT_MAP_H_
