// Gradients of one step: were they reduced, by the same rule for all, and scaled alike.
#include <algorithm>
#include <cmath>

#include "engines/ranks/judge.h"
#include "engines/ranks/median.h"

namespace mpnanny::ranks {
namespace {

constexpr double kFactorsApart = 0.01;  // rounding of a factor is below it by far
constexpr double kMeanApart = 0.05;
// What is left of a sum whose terms cancel out is rounding alone.
constexpr double kCancelled = 1e-3;
constexpr size_t kFewTensors = 3;
constexpr int64_t kLeastTied = 64;  // elements

bool Apart(double a, double b, double by) {
  return std::fabs(a - b) > by * std::max(std::fabs(a), std::fabs(b));
}

// By how much a rank scaled its gradients between backward pass and optimizer; absent: not all by
// one factor.
std::optional<double> ScaleOf(const runs::RankStep& step, int64_t rank) {
  std::vector<double> factors;
  for (const auto& [name, tensor] : step.tensors) {
    const auto each = tensor.find(rank);
    if (each == tensor.end()) continue;
    const TensorFigure* before = each->second.Gradient(Moment::kAfterBackward);
    const TensorFigure* used = each->second.Gradient();
    if (!before || !used || !(before->l2 > 0)) continue;
    const auto factor = FactorOf(*used, *before);
    if (!factor) return std::nullopt;
    factors.push_back(*factor);
  }
  if (factors.size() < 2) return std::nullopt;
  const auto [least, most] = std::minmax_element(factors.begin(), factors.end());
  if (Apart(*least, *most, kFactorsApart)) return std::nullopt;
  return Median(std::move(factors));
}

}  // namespace

void Judge::TakeGradients(const runs::RankStep& step) {
  for (const auto& [name, tensor] : step.tensors) {
    for (const Parts& parts : Comparable(name, tensor)) TakeGradient(name, parts, step.step);
  }
}

void Judge::TakeGradient(const std::string& name, const Parts& parts, int64_t step) {
  if (AreSame(parts, Moment::kParameter) != true) return;  // another fault came before
  if (AreGradientsSame(parts).value_or(true)) return;
  std::vector<double> factors;
  bool derived = true;
  for (const Part& part : parts) {
    derived = derived && part.tensor->Gradient(Moment::kDerived);
    if (const auto factor = OwnFactor(*part.tensor)) factors.push_back(*factor);
  }
  Fault fault = Fault::kGradientsDiffer;
  if (derived && factors.size() == parts.size()) {
    const bool same_before = AreGradientsSame(parts, Moment::kDerived).value_or(false);
    fault = same_before    ? Fault::kFactorsDiffer
            : in_parallel_ ? Fault::kNotReduced
                           : Fault::kGradientsDiffer;
  } else if (!derived && factors.size() == parts.size() &&
             AreGradientsSame(parts, Moment::kAfterBackward).value_or(false)) {
    fault = Fault::kFactorsDiffer;
  }
  Finding* finding = Add(fault, step, name);
  if (!finding) return;
  finding->of = RanksOf(parts);
  if (fault == Fault::kFactorsDiffer) {
    const auto [least, most] = std::minmax_element(factors.begin(), factors.end());
    finding->value = *least;
    finding->other = *most;
  }
}

// Copies of one tensor that ranks hold, under one name or several: of a pipeline's first and last
// stage. Nothing says that they belong together but that they began with the same bits.
void Judge::TakeTied(const runs::RankStep& step) {
  if (steps_.empty()) {
    std::map<int64_t, std::map<int64_t, std::string>> by_hash;
    for (const auto& [name, tensor] : step.tensors) {
      for (const auto& [rank, each] : tensor) {
        const auto& value = each[Moment::kParameter];
        if (!value || value->numel < kLeastTied) continue;
        const double square = value->l2 * value->l2;
        if (square == 0 || square == static_cast<double>(value->numel)) continue;  // 0 or 1
        by_hash[value->hash].try_emplace(rank, name);
      }
    }
    for (auto& [hash, names] : by_hash) {
      if (names.size() > 1) tied_[names.begin()->second] = std::move(names);
    }
  }
  for (const auto& [first, names] : tied_) {
    const auto known = step.tensors.find(first);
    if (known != step.tensors.end() && !Comparable(first, known->second).empty()) continue;
    Parts parts;
    for (const auto& [rank, name] : names) {
      const auto tensor = step.tensors.find(name);
      if (tensor == step.tensors.end()) continue;
      const auto each = tensor->second.find(rank);
      if (each != tensor->second.end()) parts.push_back({rank, &each->second});
    }
    if (AreSame(parts, Moment::kParameter) != true) continue;
    if (AreGradientsSame(parts).value_or(true)) continue;
    std::vector<int64_t> own, reduced;
    for (const Part& part : parts) {
      (OwnFactor(*part.tensor) ? own : reduced).push_back(part.rank);
    }
    if (reduced.empty() || own.empty()) continue;  // equal by chance, or no gradient
    if (Finding* finding = Add(Fault::kNotReduced, step.step, first)) {
      for (const auto& [rank, name] : names) {
        if (name != first) finding->tensors.push_back(name);
      }
      finding->ranks = own;
      finding->of = RanksOf(parts);
    }
  }
}

// Of each tensor that is reduced by `moment` the multiple that it is of the sum of what the ranks
// derived.
std::vector<Judge::Mean> Judge::MeansAt(const runs::RankStep& step, Moment moment) const {
  std::vector<Mean> means;
  for (const auto& [name, tensor] : step.tensors) {
    const bool sharded = IsSharded(tensor);
    if (tensor.size() != ranks_.size() || tensor.size() < 2) continue;
    if (!sharded && !AreGradientsSame(AllParts(tensor), moment).value_or(false)) continue;
    std::map<std::string, double> holders;  // of a part: how many have it
    for (const auto& [rank, each] : tensor) {
      if (each[moment]) ++holders[each[moment]->holders];
    }
    TensorFigure sum, reduced;
    double size = 0;
    bool whole = true;
    for (const auto& [rank, each] : tensor) {
      const TensorFigure* own = each.Gradient(Moment::kDerived);
      if (!own && !sharded) own = each.Gradient(Moment::kAfterBackward);
      const TensorFigure* result =
          sharded ? (each[moment] ? &*each[moment] : nullptr) : each.Gradient(moment);
      whole = own && result && result->first && own->nonfinite == 0;
      if (!whole) break;
      sum.a += own->a;
      sum.b += own->b;
      size += std::hypot(own->a, own->b);
      const double share =
          1 / (sharded ? holders[result->holders] : static_cast<double>(tensor.size()));
      reduced.a += share * result->a;
      reduced.b += share * result->b;
      reduced.l2 = std::hypot(reduced.l2, std::sqrt(share) * result->l2);
    }
    if (!whole || !(std::hypot(sum.a, sum.b) > kCancelled * size) || !(reduced.l2 > 0)) continue;
    const double square = sum.a * sum.a + sum.b * sum.b;
    const double factor = (reduced.a * sum.a + reduced.b * sum.b) / square;
    const double rest = std::hypot(reduced.a - factor * sum.a, reduced.b - factor * sum.b);
    means.push_back({name, rest <= kMeanApart * reduced.l2 ? factor : 0});
  }
  return means;
}

void Judge::TakeMeans(const runs::RankStep& step) {
  std::set<std::string> known;
  for (const Moment moment : {Moment::kAfterBackward, Moment::kUsed}) {
    const std::vector<Mean> means = MeansAt(step, moment);
    std::vector<double> factors;
    for (const Mean& mean : means) {
      if (mean.factor != 0) factors.push_back(mean.factor);
    }
    // Where most are no multiple, a communication hook compresses them, or each rank scaled its
    // own.
    if (factors.size() < kFewTensors || 2 * factors.size() <= means.size()) continue;
    const double usual = Median(factors);
    for (const Mean& mean : means) {
      if (!known.insert(mean.tensor).second || !Apart(mean.factor, usual, kMeanApart)) continue;
      if (Finding* finding = Add(Fault::kNotTheMean, step.step, mean.tensor)) {
        finding->value = mean.factor / usual;
        finding->other = usual;
      }
    }
  }
}

void Judge::TakeFactors(const runs::RankStep& step) {
  const bool comparable =
      work_together_ && std::any_of(step.tensors.begin(), step.tensors.end(), [&](const auto& t) {
        return IsSharded(t.second) || !Comparable(t.first, t.second).empty();
      });
  if (!comparable) return;
  std::map<int64_t, double> scales;
  for (const int64_t rank : ranks_) {
    const auto scale = ScaleOf(step, rank);
    if (!scale) return;
    scales[rank] = *scale;
  }
  const auto by_value = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [least, most] = std::minmax_element(scales.begin(), scales.end(), by_value);
  if (scales.size() < 2 || !Apart(least->second, most->second, kFactorsApart)) return;
  if (Finding* finding = Add(Fault::kFactorsDiffer, step.step, "")) {
    finding->value = least->second;
    finding->other = most->second;
    finding->ranks = {least->first, most->first};
  }
}

}  // namespace mpnanny::ranks
