// Which layers a question is about, and the blocks that they belong to.
//
// Free functions; the table of layers is streamed, so memory grows with what was chosen only.
#ifndef MPNANNY_TOOLS_QUERY_STATS_LAYER_CHOICE_H_
#define MPNANNY_TOOLS_QUERY_STATS_LAYER_CHOICE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "engines/runs/run.h"

namespace mpnanny::query_stats {

struct LayerChoice {
  bool all = true;           // no pattern was given
  std::vector<int64_t> ids;  // sorted; empty if `all`
  std::vector<std::string> notes;

  bool Holds(int64_t layer_id) const;
};

// A pattern is a name, a glob ("*attn*"), a regular expression between slashes
// ("/^blocks\.\d+\./"), or the name of a module whose parts are the layers ("blocks.3"). NotFound,
// with the nearest names, if no pattern fits any layer; a note for each one that does not.
Result<LayerChoice> ChooseLayers(const runs::Source& source,
                                 const std::vector<std::string>& patterns);

// "blocks.3" of "blocks.3.attn.q": up to the first part that is a number; the first part where
// there is none ("embed" of "embed.weight").
std::string_view BlockOf(std::string_view name);

struct Blocks {
  std::vector<std::string> names;  // raw, at most 2,000 bytes each; in order of layer ids
  std::unordered_map<int64_t, int> of_layer;  // layer_id -> place in `names`
};
Result<Blocks> ReadBlocks(const runs::Source& source, const LayerChoice& choice);

}  // namespace mpnanny::query_stats

#endif  // MPNANNY_TOOLS_QUERY_STATS_LAYER_CHOICE_H_
