#include "engines/ranks/same.h"

#include <algorithm>
#include <cmath>

namespace mpnanny::ranks {
namespace {

// Of any moment: who holds a tensor does not change within a step.
const TensorFigure* AnyOf(const RankTensor& tensor) {
  for (const auto& figure : tensor.at) {
    if (figure) return &*figure;
  }
  return nullptr;
}

const TensorFigure* StateOf(const RankTensor& tensor) {
  if (tensor[Moment::kParameter]) return &*tensor[Moment::kParameter];
  if (tensor[Moment::kBuffer]) return &*tensor[Moment::kBuffer];
  return AnyOf(tensor);
}

}  // namespace

std::vector<Parts> ClaimedParts(const ByRank& tensor) {
  std::map<std::string, Parts> by_holders;
  for (const auto& [rank, each] : tensor) {
    const TensorFigure* figure = StateOf(each);
    if (figure && !figure->holders.empty()) by_holders[figure->holders].push_back({rank, &each});
  }
  std::vector<Parts> found;
  for (auto& [holders, parts] : by_holders) {
    if (parts.size() > 1) found.push_back(std::move(parts));
  }
  return found;
}

Parts AllParts(const ByRank& tensor) {
  Parts parts;
  std::optional<int64_t> numel;
  for (const auto& [rank, each] : tensor) {
    const TensorFigure* figure = StateOf(each);
    if (!figure || (numel && *numel != figure->numel)) return {};
    numel = figure->numel;
    parts.push_back({rank, &each});
  }
  return parts.size() > 1 ? parts : Parts();
}

bool IsSharded(const ByRank& tensor) {
  std::optional<std::string> holders;
  for (const auto& [rank, each] : tensor) {
    const TensorFigure* figure = StateOf(each);
    if (!figure || figure->holders.empty()) return false;
    if (holders && *holders != figure->holders) return true;
    holders = figure->holders;
  }
  return false;
}

std::optional<bool> AreSame(const Parts& parts, Moment moment) {
  if (parts.size() < 2) return std::nullopt;
  for (const Part& part : parts) {
    if (!(*part.tensor)[moment]) return std::nullopt;
  }
  const int64_t hash = (*parts[0].tensor)[moment]->hash;
  return std::all_of(parts.begin(), parts.end(),
                     [&](const Part& part) { return (*part.tensor)[moment]->hash == hash; });
}

std::optional<bool> AreGradientsSame(const Parts& parts, Moment last) {
  if (parts.size() < 2) return std::nullopt;
  std::optional<int64_t> hash;
  for (const Part& part : parts) {
    const TensorFigure* gradient = part.tensor->Gradient(last);
    if (!gradient || !gradient->has_norm) return std::nullopt;
    if (hash && *hash != gradient->hash) return false;
    hash = gradient->hash;
  }
  return true;
}

std::vector<int64_t> Outliers(const Parts& parts, Moment moment) {
  std::map<int64_t, size_t> counts;
  for (const Part& part : parts) ++counts[(*part.tensor)[moment]->hash];
  int64_t most = (*parts[0].tensor)[moment]->hash;
  for (const auto& [hash, count] : counts) {
    if (count > counts[most]) most = hash;
  }
  std::vector<int64_t> ranks;
  for (const Part& part : parts) {
    if ((*part.tensor)[moment]->hash != most) ranks.push_back(part.rank);
  }
  return ranks;
}

std::optional<double> FactorOf(const TensorFigure& value, const TensorFigure& of) {
  if (value.nonfinite > 0 || of.nonfinite > 0) return std::nullopt;
  if (value.hash == of.hash && value.has_norm && of.has_norm) return 1;
  const double square = of.a * of.a + of.b * of.b;
  if (!(square > 0)) return std::nullopt;
  const double factor = (value.a * of.a + value.b * of.b) / square;
  const double rest = std::hypot(value.a - factor * of.a, value.b - factor * of.b);
  if (rest > kMultiple * std::hypot(value.a, value.b)) return std::nullopt;
  if (value.has_norm && of.has_norm && of.l2 > 0) {
    const double by_norm = value.l2 / of.l2;
    if (std::fabs(by_norm - std::fabs(factor)) > kMultiple * by_norm) return std::nullopt;
  }
  return factor;
}

std::optional<double> OwnFactor(const RankTensor& tensor) {
  const TensorFigure* used = tensor.Gradient();
  const TensorFigure* own = tensor.Gradient(Moment::kDerived);
  if (!own) own = tensor.Gradient(Moment::kAfterBackward);
  return used && own ? FactorOf(*used, *own) : std::nullopt;
}

bool IsReduced(const Parts& parts) {
  if (!AreGradientsSame(parts).value_or(false)) return false;
  for (const Part& part : parts) {
    const TensorFigure* gradient = part.tensor->Gradient();
    if (!(gradient->l2 > 0) || gradient->nonfinite > 0) return false;
  }
  return !AreGradientsSame(parts, Moment::kDerived).value_or(true) ||
         !AreGradientsSame(parts, Moment::kAfterBackward).value_or(true);
}

std::vector<int64_t> RanksOf(const Parts& parts) {
  std::vector<int64_t> ranks;
  for (const Part& part : parts) ranks.push_back(part.rank);
  return ranks;
}

}  // namespace mpnanny::ranks
