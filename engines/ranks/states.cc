// Parameters and buffers over the steps: what should be the same, and since when it is not.
#include <algorithm>
#include <cmath>

#include "engines/ranks/judge.h"

namespace mpnanny::ranks {
namespace {

bool IsBuffer(const ByRank& tensor) {
  return std::any_of(tensor.begin(), tensor.end(),
                     [](const auto& each) { return each.second[Moment::kBuffer].has_value(); });
}

}  // namespace

void Judge::TakeStates(const runs::RankStep& step) {
  for (const auto& [name, tensor] : step.tensors) TakeState(name, tensor, step.step);
}

void Judge::TakeState(const std::string& name, const ByRank& tensor, int64_t step) {
  const Moment moment = IsBuffer(tensor) ? Moment::kBuffer : Moment::kParameter;
  State& state = states_[name];
  state.buffer = moment == Moment::kBuffer;
  for (const auto& [rank, each] : tensor) {
    if (!each[moment]) continue;
    const int64_t hash = each[moment]->hash;
    const auto before = state.hashes.find(rank);
    state.moved = state.moved || (before != state.hashes.end() && before->second != hash);
    state.hashes[rank] = hash;
  }
  std::vector<Parts> sets = ClaimedParts(tensor);
  state.claimed = state.claimed || !sets.empty();
  if (sets.empty() && !IsSharded(tensor)) {
    if (Parts all = AllParts(tensor); !all.empty()) sets.push_back(std::move(all));
  }
  std::optional<bool> same;
  for (const Parts& parts : sets) {
    const std::optional<bool> here = AreSame(parts, moment);
    if (!here) continue;
    same = same.value_or(true) && *here;
    if (*here || state.differs) continue;
    state.outliers = Outliers(parts, moment);
    state.of = RanksOf(parts);
    for (const Part& part : parts) {
      const bool outlier = std::find(state.outliers.begin(), state.outliers.end(), part.rank) !=
                           state.outliers.end();
      (outlier ? state.l2 : state.other_l2) = (*part.tensor)[moment]->l2;
    }
  }
  if (!same) return;
  if (!state.same_at_first) state.same_at_first = same;
  if (*same) {
    state.differs_since.reset();
    state.gradients_were_same =
        !sets.empty() && std::all_of(sets.begin(), sets.end(), [](const Parts& parts) {
          return AreGradientsSame(parts).value_or(false);
        });
  } else if (!state.differs_since) {
    state.differs_since = step;
  }
  state.differs = !*same;
}

void Judge::JudgeStates() {
  for (const auto& [name, state] : states_) {
    if (!state.differs || !state.differs_since || steps_.empty()) continue;
    const bool from_start = !*state.same_at_first;
    std::optional<Fault> fault;
    if (state.buffer) {
      // What ranks write to is their own business: running statistics. A value for each rank is
      // meant; one that differs from those of all others is not.
      const bool odd_one = state.outliers.size() + 1 < state.of.size();
      if (!state.moved && steps_.size() > 1 && (odd_one || state.of.size() == 2)) {
        fault = Fault::kBufferDiffers;
      }
    } else if (from_start) {
      fault = state.claimed || state.reduced ? Fault::kParameterDiffers : Fault::kLocalParameter;
    } else if (state.claimed || work_together_) {
      fault = Fault::kParameterParts;
    }
    if (!fault) continue;
    Finding* finding = Add(*fault, *state.differs_since, name);
    if (!finding) continue;
    finding->ranks = state.outliers;
    finding->of = state.of;
    finding->value = state.l2;
    finding->other = state.other_l2;
    finding->gradients_were_same = state.gradients_were_same;
  }
}

}  // namespace mpnanny::ranks
