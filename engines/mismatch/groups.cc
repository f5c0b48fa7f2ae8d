#include "engines/mismatch/groups.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace mpnanny::mismatch {

double MergedGroups::Group::Rms() const {
  return tokens > 0 ? std::sqrt(squares / static_cast<double>(tokens)) : 0;
}

double MergedGroups::Group::Exposure() const {
  return tokens > 0 ? std::sqrt(exposed / static_cast<double>(tokens)) : 0;
}

MergedGroups::MergedGroups(std::span<const Call> calls) {
  std::array<std::map<int64_t, Group>, kMismatchGroupings> merged;
  for (const Call& call : calls) {
    for (const MismatchGroup& group : call.figures.groups) {
      Group& into = merged[static_cast<size_t>(group.by)][group.from];
      into.from = group.from;
      into.tokens += group.tokens;
      into.squares += group.rms * group.rms * static_cast<double>(group.tokens);
      into.exposed += group.exposure * group.exposure * static_cast<double>(group.tokens);
    }
  }
  for (size_t by = 0; by < merged.size(); ++by) {
    for (const auto& [from, group] : merged[by]) groups_[by].push_back(group);
  }
}

std::optional<Contrast> MergedGroups::Between(MismatchBy by,
                                              const std::function<bool(int64_t from)>& loud,
                                              int64_t fewest) const {
  Group sides[2];
  for (const Group& group : By(by)) {
    Group& side = sides[loud(group.from) ? 1 : 0];
    side.tokens += group.tokens;
    side.squares += group.squares;
    side.exposed += group.exposed;
  }
  if (sides[0].tokens < fewest || sides[1].tokens < fewest) return std::nullopt;
  return Contrast{sides[0].Rms(),  sides[1].Rms(),      sides[0].tokens,
                  sides[1].tokens, sides[0].Exposure(), sides[1].Exposure()};
}

std::optional<MergedGroups::Split> MergedGroups::BestSplit(MismatchBy by, int64_t fewest) const {
  std::optional<Split> best;
  for (const Group& group : By(by)) {
    const auto contrast = Between(by, [&](int64_t from) { return from >= group.from; }, fewest);
    if (!contrast || (best && best->contrast.Ratio() >= contrast->Ratio())) continue;
    best = Split{group.from, *contrast};
  }
  return best;
}

double MergedGroups::Trend(MismatchBy by) const {
  std::vector<double> values;
  for (const Group& group : By(by)) values.push_back(group.LogitError());
  return TrendOf(values);
}

double TrendOf(std::span<const double> values) {
  const size_t count = values.size();
  if (count < 4) return 0;
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return values[a] < values[b]; });
  double squares = 0;
  for (size_t rank = 0; rank < count; ++rank) {
    const double apart = static_cast<double>(rank) - static_cast<double>(order[rank]);
    squares += apart * apart;
  }
  const auto n = static_cast<double>(count);
  return 1 - 6 * squares / (n * (n * n - 1));
}

}  // namespace mpnanny::mismatch
