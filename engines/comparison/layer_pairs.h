// How the layers of two runs fit together, by their names.
//
// Plain values; free functions.
#ifndef MPNANNY_ENGINES_COMPARISON_LAYER_PAIRS_H_
#define MPNANNY_ENGINES_COMPARISON_LAYER_PAIRS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "engines/runs/run.h"

namespace mpnanny::comparison {

// Where a layer stands: one that both runs have.
struct CommonLayer {
  std::string name;                 // raw, as in the reference
  std::optional<int64_t> position;  // of the module, or of the parameter's owner
  std::string owner;                // of a parameter: the module's name
};

// How the layers' names of two runs fit. Prefixes that wrappers add ("module.", "_orig_mod.") do
// not count.
struct LayerPairs {
  std::vector<CommonLayer> common;
  std::unordered_map<int64_t, uint32_t> index_a, index_b;  // layer_id -> index into common
  std::vector<std::string> only_a, only_b;                 // raw names, the first few
  int64_t count_only_a = 0, count_only_b = 0;
  // Of those, parameters: the first few, and how many.
  std::vector<std::string> parameters_only_a, parameters_only_b;
  int64_t parameters_total_only_a = 0, parameters_total_only_b = 0;
  int64_t depth = 1;             // modules in a row, as far as their positions tell
  int64_t other_sizes = 0;       // layers with another number of elements
  std::string first_other_size;  // raw name
  // The same model was watched as parts of two others: what stands before the names in each run
  // ("" for nothing). Absent: names are compared as they are.
  struct Prefixes {
    std::string a, b;
  };
  std::optional<Prefixes> prefixes;
};
Result<LayerPairs> PairLayers(const runs::Source& a, const runs::Source& b);

// Without the names of wrappers, wherever they stand: "module.blocks.0" is "blocks.0".
std::string BareName(std::string name);

}  // namespace mpnanny::comparison

#endif  // MPNANNY_ENGINES_COMPARISON_LAYER_PAIRS_H_
