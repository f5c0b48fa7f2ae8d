// Layers of a distributed run's ranks under one numbering: that of the rank that decides.
//
// A layer that only other ranks have (pipeline stages) gets an id of its own, far above those of
// databases, by its name: ranks that share a stage share its layers. A value owned by one call; borrows the Source.
#ifndef MPNANNY_ENGINES_RUNS_RANK_LAYERS_H_
#define MPNANNY_ENGINES_RUNS_RANK_LAYERS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "engines/runs/run.h"

namespace mpnanny::runs {

class RankLayers {
 public:
  explicit RankLayers(const Source& source) : source_(source) {}

  // The id under which the Source knows layer `id` of its other rank `other`.
  Result<int64_t> Map(size_t other, int64_t id);

  // {index into Source::others, id there} of a layer that the deciding rank lacks.
  static std::optional<std::pair<size_t, int64_t>> Elsewhere(const Source& source, int64_t id);
  static int64_t IdElsewhere(size_t other, int64_t id);

 private:
  const Source& source_;
  std::map<std::pair<size_t, int64_t>, int64_t> known_;
  std::map<std::string, int64_t> elsewhere_;  // by name, those that the deciding rank lacks
};

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_RANK_LAYERS_H_
