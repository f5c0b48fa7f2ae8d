// Which sampled steps a question looks at: all of them, or so many that the answer comes quickly.
//
// Free functions; questions are seeks on the tables' keys.
#ifndef MPNANNY_TOOLS_QUERY_STATS_SAMPLED_STEPS_H_
#define MPNANNY_TOOLS_QUERY_STATS_SAMPLED_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "engines/runs/samples.h"
#include "engines/runs/steps.h"
#include "tools/query_stats/layer_choice.h"

namespace mpnanny::query_stats {

struct ChosenSteps {
  // Ascending. Unless `all`, steps at which there should be a sample: where there is none, the next
  // one after it stands for it (see Recorded()).
  std::vector<int64_t> steps;
  bool all = true;        // every sampled step of the range is among them
  int64_t looked_at = 0;  // how many of them were read
  int64_t sampled = 0;    // how many there are in the range; an estimate unless `all`
};

// Sampled steps of the range: all if there are at most `exact`, else `most` spread evenly with the
// first and the last, and those next to each of `also`.
Result<ChosenSteps> ChooseSteps(runs::SampleReader& reader, const runs::Source& source,
                                const runs::StepRange& range, size_t exact, size_t most,
                                const std::vector<int64_t>& also);

// The sampled step that stands for the chosen one at `place`: itself, or the first one before the
// next that was chosen; nullopt if there is none.
Result<std::optional<int64_t>> Recorded(runs::SampleReader& reader, const ChosenSteps& chosen,
                                        size_t place);

// All sampled steps strictly between two, at most `most`.
Result<std::vector<int64_t>> StepsBetween(runs::SampleReader& reader, int64_t after, int64_t before,
                                          size_t most);

// Steps in the range at which something worth a look happened: the first and the last alert of each
// type, and some more of the errors at the chosen layers. Ascending, a few hundred at most.
Result<std::vector<int64_t>> AlertSteps(const runs::Source& source, const runs::StepRange& range,
                                        const LayerChoice& layers);

}  // namespace mpnanny::query_stats

#endif  // MPNANNY_TOOLS_QUERY_STATS_SAMPLED_STEPS_H_
