// Layers of a distributed run's ranks under one numbering: that of the rank that decides.
//
// A layer that only other ranks have (pipeline stages) gets an id of its own, far above those of
// databases: that of the lowest rank that has one of its name, since ranks may share a stage. A
// value owned by one call; borrows the Source.
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

  // The id under which the Source knows layer `id` of its other rank `other`; by the name where it
  // is known (absent: the rank names no such layer).
  Result<int64_t> Map(size_t other, int64_t id);
  Result<int64_t> Map(size_t other, int64_t id, const std::optional<std::string>& name);
  // The id of the layer of this name; nullopt where no rank has one.
  Result<std::optional<int64_t>> Named(const std::string& name);

  // {index into Source::others, id there} of a layer that the deciding rank lacks.
  static std::optional<std::pair<size_t, int64_t>> Elsewhere(const Source& source, int64_t id);
  static int64_t IdElsewhere(size_t other, int64_t id);

 private:
  Result<std::optional<int64_t>> LookUp(const std::string& name) const;

  const Source& source_;
  std::map<std::pair<size_t, int64_t>, int64_t> known_;
  std::map<std::string, std::optional<int64_t>> by_name_;
};

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_RANK_LAYERS_H_
