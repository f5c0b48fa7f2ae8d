// What calls of torch.distributed tell: sums of what was summed before, and who brought a value
// that is not finite.
#include <algorithm>
#include <cmath>

#include "engines/ranks/judge.h"
#include "engines/ranks/median.h"

namespace mpnanny::ranks {
namespace {

// A running sum that is also divided by the ranks holds less with each call (t / (ranks · (t − 1))
// of the last one at call t), so the first ones say nothing.
constexpr size_t kFirstCalls = 4, kLeastCalls = 3;
constexpr double kHeld = 0.9;
constexpr size_t kMostNamed = 16;  // gradients that are not finite

// Calls that ranks made together: the same place in the order of a step.
std::map<int64_t, std::vector<const runs::RankCollective*>> Together(const runs::RankStep& step) {
  std::map<int64_t, std::vector<const runs::RankCollective*>> calls;
  for (const runs::RankCollective& call : step.collectives) calls[call.sequence].push_back(&call);
  return calls;
}

bool AnyNonFinite(const RankTensor& tensor, Moment moment) {
  return tensor[moment] && tensor[moment]->nonfinite > 0;
}

// Tensors whose gradients a sum of what was the same on `ranks` ranks has made that many times as
// large, of a call that reduced them as one flat tensor of `numel` elements; empty: they are not
// those of the call.
std::vector<std::string> SummedTogether(const runs::RankStep& step, double ranks, int64_t numel) {
  std::map<std::string, double> factors;
  std::vector<double> all;
  for (const auto& [name, tensor] : step.tensors) {
    const RankTensor& any = tensor.begin()->second;
    const TensorFigure* used = any.Gradient();
    const TensorFigure* before = any.Gradient(Moment::kAfterBackward);
    if (!used || !before ||
        !AreGradientsSame(AllParts(tensor), Moment::kAfterBackward).value_or(false))
      continue;
    if (const auto factor = FactorOf(*used, *before)) all.push_back(factors[name] = *factor);
  }
  if (all.empty()) return {};
  const double usual = Median(std::move(all));
  // Where all are summed, the usual factor is that of the sum.
  for (const double rest : {usual, usual / ranks}) {
    std::vector<std::string> names;
    int64_t elements = 0;
    for (const auto& [name, factor] : factors) {
      if (std::fabs(factor - ranks * rest) > kMultiple * std::fabs(factor)) continue;
      names.push_back(name);
      elements += step.tensors.at(name).begin()->second.Gradient()->numel;
    }
    if (elements == numel) return names;
  }
  return {};
}

}  // namespace

void Judge::TakeCollectives(const runs::RankStep& step) {
  for (const auto& [sequence, calls] : Together(step)) {
    const runs::RankCollective& first = *calls[0];
    if (calls.size() < 2 || first.reduction != "sum" || nonfinite_seen_) continue;
    const bool same = std::all_of(calls.begin(), calls.end(), [&](const auto* call) {
      return call->hash_in == first.hash_in && call->ranks == first.ranks &&
             call->tensor == first.tensor && call->l2_in.value_or(0) > 0;
    });
    if (!same || (!first.gradient && !first.tensor.empty())) continue;
    const auto times = static_cast<double>(calls.size());
    const std::vector<std::string> tensors = first.gradient
                                                 ? std::vector<std::string>{first.tensor}
                                                 : SummedTogether(step, times, first.numel);
    for (const std::string& name : tensors) {
      // Ranks that were given the same batch derive the same gradients.
      const auto tensor = step.tensors.find(name);
      if (tensor == step.tensors.end()) continue;
      const Parts parts = AllParts(tensor->second);
      if (parts.empty() || AreGradientsSame(parts, Moment::kDerived).value_or(true)) continue;
      if (Finding* finding = Add(Fault::kReducedTwice, step.step, name)) {
        finding->value = times;
        finding->operation = first.operation;
        finding->source = first.source;
      }
    }
  }
  for (const runs::RankCollective& call : step.collectives) {
    if (call.rank != *ranks_.begin() || call.reduction != "sum" || call.gradient) continue;
    if (call.tensor.empty() || !call.kept) continue;
    InPlace& here = in_place_[call.tensor];
    if (here.kept.empty()) here.step = step.step;
    here.kept.push_back(*call.kept);
    here.source = call.source;
    if (here.last_l2 > 0) here.growth = call.l2_out.value_or(0) / here.last_l2;
    here.last_l2 = call.l2_out.value_or(0);
    if (here.kept.size() < kFirstCalls + kLeastCalls) continue;
    const bool held = std::all_of(here.kept.begin() + kFirstCalls, here.kept.end(),
                                  [](double kept) { return kept >= kHeld; });
    if (!held || here.kept.size() != kFirstCalls + kLeastCalls) continue;
    if (Finding* finding = Add(Fault::kSummedInPlace, here.step, call.tensor)) {
      finding->value = here.growth;
      finding->operation = call.operation;
      finding->source = call.source;
    }
  }
}

void Judge::TakeNonFinite(const runs::RankStep& step) {
  if (nonfinite_seen_) return;
  std::vector<int64_t> makers;
  Finding found;
  // The first call that brings it to a rank that had none.
  for (const auto& [sequence, calls] : Together(step)) {
    const bool brought = std::any_of(calls.begin(), calls.end(), [](const auto* call) {
      return call->nonfinite_in == 0 && call->nonfinite_out > 0;
    });
    if (!brought) continue;
    for (const auto* call : calls) {
      if (call->nonfinite_in > 0 || call->nonfinite_out == 0) makers.push_back(call->rank);
      found.operation = call->operation;
      found.source = call->source;
      if (call->gradient && found.tensors.empty()) found.tensors.push_back(call->tensor);
    }
    // In a step that is not compared only the ranks that got it have a row.
    if (calls.size() < ranks_.size()) {
      for (const int64_t rank : ranks_) {
        const bool has_row = std::any_of(calls.begin(), calls.end(),
                                         [&](const auto* call) { return call->rank == rank; });
        if (!has_row) makers.push_back(rank);
      }
    }
    break;
  }
  bool any = !makers.empty();
  std::set<int64_t> derived, carried;
  for (const auto& [name, tensor] : step.tensors) {
    for (const auto& [rank, each] : tensor) {
      const bool own = AnyNonFinite(each, Moment::kDerived);
      const bool later = AnyNonFinite(each, Moment::kAfterBackward) ||
                         AnyNonFinite(each, Moment::kClipped) || AnyNonFinite(each, Moment::kUsed);
      if (own) derived.insert(rank);
      if (own || later) carried.insert(rank);
      const bool makes =
          makers.empty() || std::find(makers.begin(), makers.end(), rank) != makers.end();
      const bool listed = !found.tensors.empty() && found.tensors.back() == name;
      if (own && makes && !listed && found.tensors.size() < kMostNamed)
        found.tensors.push_back(name);
    }
  }
  any = any || !carried.empty();
  if (!any) return;
  nonfinite_seen_ = true;
  if (makers.empty() && derived.size() < carried.size())
    makers.assign(derived.begin(), derived.end());
  if (makers.empty() || makers.size() >= ranks_.size()) return;
  found.fault = Fault::kNanOfRank;
  found.step = step.step;
  found.ranks = makers;
  findings_.push_back(std::move(found));
}

}  // namespace mpnanny::ranks
