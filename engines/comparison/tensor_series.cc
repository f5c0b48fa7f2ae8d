#include "engines/comparison/tensor_series.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "engines/comparison/noise.h"

namespace mpnanny::comparison {
namespace {

constexpr size_t kGroups = 8;
constexpr size_t kGroupRun = kGroupSamples;
constexpr double kReachFactor = 3, kReachQuantile = 0.9, kLargestFactor = 2;

// How far sample i lies off the middle of its neighbours, as a standard deviation.
double Residual(const std::vector<double>& v, const Read& read, size_t i) {
  if (i == 0 || i + 1 >= v.size() || read.Breaks(i) || read.Breaks(i + 1)) return kNan;
  return std::fabs(v[i] - (v[i - 1] + v[i + 1]) / 2) / std::sqrt(1.5);
}

}  // namespace

std::vector<size_t> ChooseSamples(size_t count) {
  std::vector<size_t> chosen;
  if (count <= kReadAll) {
    for (size_t i = 0; i < count; ++i) chosen.push_back(i);
    return chosen;
  }
  for (size_t group = 0; group < kGroups; ++group) {
    const size_t first = (count - kGroupRun) * group / (kGroups - 1);
    for (size_t i = first; i < first + kGroupRun; ++i) {
      if (chosen.empty() || i > chosen.back()) chosen.push_back(i);
    }
  }
  return chosen;
}

void FillLimits(Series& s, int metric, const Read& read, double rounding, double deviations) {
  std::vector<double> with_gaps;
  for (size_t i = 0; i < s.a.size(); ++i) {
    if (i > 0 && read.Breaks(i)) with_gaps.push_back(kNan);
    with_gaps.push_back(s.a[i]);
  }
  const double usual = OwnVariation(with_gaps.data(), with_gaps.size());
  const double numel = static_cast<double>(std::max<int64_t>(s.numel, 2));
  for (size_t i = 0; i < s.a.size(); ++i) {
    double variation = usual;
    for (const size_t near : {i - 1, i, i + 1}) {  // i - 1 of 0 is beyond the end
      if (near >= s.a.size()) continue;
      const double residual = Residual(s.a, read, near);
      if (residual > variation) variation = residual;
    }
    const double own = rounding + deviations * std::sqrt(2.0) * variation;
    double draw = 0;
    if (IsShare(metric)) {
      const double p = std::clamp(s.a[i] + s.apart[i] / 2, 0.0, 1.0);
      draw = std::sqrt(2 * p * (1 - p) / numel);
    } else if (metric == kAbsmax) {
      draw = 1 / std::log(numel);  // of the largest of so many normal draws
    } else {
      draw = 1 / std::sqrt(numel);
    }
    s.own.push_back(own);
    s.unit.push_back(own + (std::isfinite(draw) ? draw : 0));
  }
}

std::set<uint32_t> OnlyRounding(const Read& read, const LayerPairs& layers, double relative) {
  std::map<uint32_t, int64_t> balance;  // samples that speak for it less those against
  for (const Sample& sample : read.sample) {
    std::map<std::string_view, double> largest;
    for (const auto& [key, pair] : sample.tensors) {
      if (key.kind != runs::kGradient || !(pair.a[kAbsmax] > 0)) continue;
      double& most = largest[layers.common[key.layer].owner];
      most = std::max(most, pair.a[kAbsmax]);
    }
    for (const auto& [key, pair] : sample.tensors) {
      if (key.kind != runs::kGradient) continue;
      const auto most = largest.find(layers.common[key.layer].owner);
      const bool residue = most != largest.end() && pair.a[kAbsmax] < relative * most->second &&
                           pair.b[kAbsmax] < relative * most->second;
      balance[key.layer] += residue ? 1 : -1;
    }
  }
  std::set<uint32_t> only;
  for (const auto& [layer, samples] : balance) {
    if (samples > 0) only.insert(layer);
  }
  return only;
}

std::vector<double> Moves(const std::vector<Series>& group, size_t sample, int sign) {
  std::vector<double> moves;
  for (const Series& s : group) {
    const double z = sign * s.apart[sample] / s.unit[sample];
    if (z > 0) moves.push_back(z);
  }
  return moves;
}

double Reach(std::vector<double> moves, bool same_start) {
  if (moves.empty()) return 0;
  const size_t at = std::min(
      moves.size() - 1, static_cast<size_t>(kReachQuantile * static_cast<double>(moves.size())));
  std::nth_element(moves.begin(), moves.begin() + static_cast<ptrdiff_t>(at), moves.end());
  const double usual = kReachFactor * moves[at];
  if (same_start) return usual;
  return std::max(usual, kLargestFactor * *std::max_element(moves.begin(), moves.end()));
}

}  // namespace mpnanny::comparison
