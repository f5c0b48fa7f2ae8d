#include "engines/runs/rank_layers.h"

#include "engines/runs/parts.h"

namespace mpnanny::runs {
namespace {

constexpr int kIdBits = 48;  // of a database's own id
constexpr size_t kMostKept = 200'000;

}  // namespace

int64_t RankLayers::IdElsewhere(size_t other, int64_t id) {
  return (static_cast<int64_t>(other + 1) << kIdBits) | (id & ((int64_t{1} << kIdBits) - 1));
}

std::optional<std::pair<size_t, int64_t>> RankLayers::Elsewhere(const Source& source, int64_t id) {
  const int64_t other = id >> kIdBits;
  if (other < 1 || static_cast<size_t>(other) > source.others.size()) return std::nullopt;
  return std::pair(static_cast<size_t>(other - 1), id & ((int64_t{1} << kIdBits) - 1));
}

Result<int64_t> RankLayers::Map(size_t other, int64_t id) {
  const auto found = known_.find({other, id});
  if (found != known_.end()) return found->second;
  const OtherRank& rank = source_.others[other];
  MPN_TRY_ASSIGN(auto name,
                 rank.database->Prepare("SELECT name FROM layer WHERE layer_id=?1 AND run_id=?2"));
  name.Bind(1, id).Bind(2, *rank.run.handle.run_id);
  MPN_TRY_ASSIGN(auto named, name.Next());
  int64_t mapped = IdElsewhere(other, id);
  if (named) {
    MPN_TRY_ASSIGN(auto of_name, Named(name.TextOr(0)));
    mapped = of_name.value_or(mapped);
  }
  if (known_.size() < kMostKept) known_.emplace(std::pair(other, id), mapped);
  return mapped;
}

Result<int64_t> RankLayers::Map(size_t other, int64_t id, const std::optional<std::string>& name) {
  if (!name) return IdElsewhere(other, id);
  MPN_TRY_ASSIGN(auto mapped, Named(*name));
  return mapped.value_or(IdElsewhere(other, id));
}

Result<std::optional<int64_t>> RankLayers::Named(const std::string& name) {
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) return found->second;
  MPN_TRY_ASSIGN(auto mapped, LookUp(name));
  if (by_name_.size() < kMostKept) by_name_.emplace(name, mapped);
  return mapped;
}

Result<std::optional<int64_t>> RankLayers::LookUp(const std::string& name) const {
  if (LiesInOne(source_)) {
    MPN_TRY_ASSIGN(auto row,
                   source_.database->Prepare("SELECT layer_id, run_id FROM layer WHERE raw_name=?2 "
                                             "ORDER BY run_id<>?1, run_id, layer_id LIMIT 1"));
    row.Bind(1, source_.run.rank).Bind(2, std::string_view(name));
    MPN_TRY_ASSIGN(auto there, row.Next());
    if (!there) return std::optional<int64_t>();
    const size_t part = PartsByRank(source_).Of(row.IntOr(1, 0));
    const int64_t id = row.IntOr(0, 0);
    return std::optional(part == 0 ? id : IdElsewhere(part - 1, id));
  }
  for (size_t part = 0; part < PartsOf(source_); ++part) {
    MPN_TRY_ASSIGN(auto row,
                   DatabaseOf(source_, part)
                       .Prepare("SELECT layer_id FROM layer WHERE run_id=?1 AND name=?2"));
    row.Bind(1, *RunOf(source_, part).handle.run_id).Bind(2, std::string_view(name));
    MPN_TRY_ASSIGN(auto there, row.Next());
    if (!there) continue;
    const int64_t id = row.IntOr(0, 0);
    return std::optional(part == 0 ? id : IdElsewhere(part - 1, id));
  }
  return std::optional<int64_t>();
}

}  // namespace mpnanny::runs
