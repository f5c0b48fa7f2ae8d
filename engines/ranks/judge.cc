#include "engines/ranks/judge.h"

#include <algorithm>

namespace mpnanny::ranks {
namespace {

constexpr size_t kMostTensors = 64;  // of one finding

// These follow from nothing that went before in another tensor.
bool StandsAlone(Fault fault) {
  return fault == Fault::kBufferDiffers || fault == Fault::kSummedInPlace ||
         fault == Fault::kNormWrong || fault == Fault::kReducedTwice ||
         fault == Fault::kLocalParameter || fault == Fault::kParameterDiffers;
}

}  // namespace

void Judge::Take(const runs::RankStep& step) {
  for (const auto& [name, tensor] : step.tensors) {
    for (const auto& [rank, each] : tensor) ranks_.insert(rank);
    if (IsSharded(tensor)) {
      work_together_ = true;
      // FSDP lets a module derive the whole parameter, tensor parallelism does not.
      in_parallel_ = in_parallel_ || tensor.begin()->second[Moment::kDerived].has_value();
    }
    const Parts parts = AllParts(tensor);
    if (!parts.empty() && IsReduced(parts)) {
      work_together_ = in_parallel_ = true;
      states_[name].reduced = true;
    }
  }
  TakeStates(step);
  TakeNonFinite(step);
  if (!nonfinite_seen_) {  // NaN equals nothing, and spoils every sum
    TakeGradients(step);
    TakeTied(step);
    TakeMeans(step);
    TakeFactors(step);
    TakeNorms(step);
  }
  TakeCollectives(step);
  steps_.push_back(step.step);
}

std::vector<Finding> Judge::Finish() {
  JudgeStates();
  std::stable_sort(findings_.begin(), findings_.end(), [](const Finding& a, const Finding& b) {
    return std::pair(a.step, a.fault) < std::pair(b.step, b.fault);
  });
  std::vector<Finding> kept;
  for (Finding& finding : findings_) {
    finding.last_good = StepBefore(finding.step);
    if (finding.of.empty()) finding.of.assign(ranks_.begin(), ranks_.end());
    const bool follows = std::any_of(kept.begin(), kept.end(), [&](const Finding& earlier) {
      return earlier.fault != Fault::kLocalParameter && earlier.fault != Fault::kBufferDiffers;
    });
    if (follows && !StandsAlone(finding.fault)) continue;
    kept.push_back(std::move(finding));
  }
  return kept;
}

Finding* Judge::Add(Fault fault, int64_t step, const std::string& tensor) {
  for (Finding& finding : findings_) {
    if (finding.fault != fault) continue;
    if (finding.step != step) return nullptr;
    if (finding.tensors.size() < kMostTensors) finding.tensors.push_back(tensor);
    return &finding;
  }
  Finding& finding = findings_.emplace_back();
  finding.fault = fault;
  finding.step = step;
  if (!tensor.empty()) finding.tensors.push_back(tensor);
  return &finding;
}

std::optional<int64_t> Judge::StepBefore(int64_t step) const {
  const auto at = std::lower_bound(steps_.begin(), steps_.end(), step);
  return at == steps_.begin() ? std::nullopt : std::optional(*(at - 1));
}

std::vector<Parts> Judge::Comparable(const std::string& name, const ByRank& tensor) const {
  std::vector<Parts> claimed = ClaimedParts(tensor);
  if (!claimed.empty()) return claimed;
  Parts all = AllParts(tensor);
  if (all.empty() || !work_together_ || IsSharded(tensor)) return {};
  const auto state = states_.find(name);
  if (state == states_.end() || !state->second.same_at_first.value_or(false)) return {};
  return {std::move(all)};
}

}  // namespace mpnanny::ranks
