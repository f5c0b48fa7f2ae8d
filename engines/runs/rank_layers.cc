#include "engines/runs/rank_layers.h"

#include <string>

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
    MPN_TRY_ASSIGN(auto same, source_.database->Prepare(
                                  "SELECT layer_id FROM layer WHERE run_id=?1 AND name=?2"));
    const std::string text = name.TextOr(0);
    same.Bind(1, *source_.run.handle.run_id).Bind(2, std::string_view(text));
    MPN_TRY_ASSIGN(auto row, same.Next());
    if (row) {
      mapped = same.IntOr(0, mapped);
    } else if (elsewhere_.size() < kMostKept) {
      mapped = elsewhere_.try_emplace(text, mapped).first->second;
    }
  }
  if (known_.size() < kMostKept) known_.emplace(std::pair(other, id), mapped);
  return mapped;
}

}  // namespace mpnanny::runs
