#include "engines/comparison/tensor_partings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "engines/comparison/noise.h"
#include "engines/comparison/tensor_series.h"

namespace mpnanny::comparison {
namespace {

constexpr size_t kRun = kGroupSamples;  // successive samples that must agree
// Below this an alert would not count a share either (docs/architecture.md, UNDERFLOW).
constexpr double kShareFloor = 0.01;
constexpr size_t kEnoughForReach = 3;

// A figure as it is compared: magnitudes by their logarithm.
double Compared(int metric, double value) {
  if (IsShare(metric)) return value;
  return value > 0 && std::isfinite(value) ? std::log(value) : kNan;
}

// Whether the shares below FP16's smallest tell of the same thing. Gradients are counted as they
// are held, under the loss scale. And sums that cancel leave residues of the size of the rounding:
// where that is above what FP16 takes for zero, the share says how the format rounds.
bool CountsCompare(int64_t kind, const SampledStep& step, const Pair& pair, double relative) {
  const bool gradient = kind == runs::kActivationGradient || kind == runs::kGradient;
  const double flushed = Info(Format::kFp16).min_subnormal / 2;
  return (!gradient || step.same_scale) &&
         relative * std::max(pair.a[kRms], pair.b[kRms]) <= flushed;
}

// How a step computes: weights are read before it, then forward, backward, optimizer.
std::tuple<int, int64_t> PlaceInStep(const TensorKey& key, const LayerPairs& layers) {
  constexpr int64_t kLast = std::numeric_limits<int32_t>::max();
  const int64_t position = layers.common[key.layer].position.value_or(kLast);
  switch (key.kind) {
    case runs::kWeight:
      return {0, position};
    case runs::kInput:
      return {1, position};
    case runs::kActivation:
      return {2, position};
    case runs::kActivationGradient:
    case runs::kGradient:
      return {3, -position};
    default:
      return {4, position};
  }
}

double DepthOf(const TensorKey& key, const LayerPairs& layers) {
  const auto depth = static_cast<double>(layers.depth);
  const auto position = layers.common[key.layer].position;
  switch (key.kind) {
    case runs::kInput:
      return 1;
    case runs::kActivation:
      return position ? static_cast<double>(*position) + 1 : depth;
    case runs::kActivationGradient:
    case runs::kGradient:
      return position ? 2 * depth - static_cast<double>(*position) : 2 * depth;
    default:
      return 2 * depth;
  }
}

using Groups = std::map<std::pair<int64_t, int>, std::vector<Series>>;  // (kind, metric)

class Comparer {
 public:
  Comparer(Tensors& tensors, const LayerPairs& layers, const std::vector<SampledStep>& samples,
           TensorComparison& out)
      : tensors_(tensors), layers_(layers), samples_(samples), out_(out) {}

  Result<void> Run(bool at_start, double half_ulp_if_unknown) {
    read_.index = ChooseSamples(samples_.size());
    for (const size_t index : read_.index) {
      auto sample = tensors_.Read(samples_[index]);
      if (!sample) return sample.error();
      read_.sample.push_back(*std::move(sample));
    }
    const auto format = tensors_.coarsest();
    half_ulp_ = format ? Info(*format).epsilon / 2 : half_ulp_if_unknown;
    out_.rounding = RoundingLimit(half_ulp_, 1);
    Collect();
    if (at_start && !read_.sample.empty()) JudgeStart();
    FindNonFinite();
    for (const auto& [key, group] : groups_) JudgeGroup(key.first, key.second, group);
    MPN_TRY(Narrow());
    Finish();
    return {};
  }

 private:
  void Collect() {
    std::map<TensorKey, int64_t> keys;
    for (const Sample& sample : read_.sample) {
      for (const auto& [key, pair] : sample.tensors) keys.emplace(key, pair.numel);
    }
    out_.compared_tensors = static_cast<int64_t>(keys.size());
    out_.deviations = LimitInDeviations(keys.size() * kMetrics * read_.sample.size());
    const std::set<uint32_t> chance = OnlyRounding(
        read_, layers_, RoundingLimit(half_ulp_, 2 * static_cast<double>(layers_.depth)));
    out_.only_rounding = static_cast<int64_t>(chance.size());
    for (const auto& [key, numel] : keys) {
      if (chance.contains(key.layer)) continue;
      const double relative = RoundingLimit(half_ulp_, DepthOf(key, layers_));
      for (int metric = 0; metric < kNonFinite; ++metric) {
        Series s{key, numel, {}, {}, {}, {}};
        bool any = false;
        for (const Sample& sample : read_.sample) {
          const Pair* pair = sample.Find(key);
          const bool unstepped =
              (sample.step.skipped_a || sample.step.skipped_b) && key.kind == runs::kUpdate;
          const bool usable = pair && (metric != kBelowFp16 ||
                                       CountsCompare(key.kind, sample.step, *pair, relative));
          const double a = usable ? Compared(metric, pair->a[metric]) : kNan;
          const double b = usable && !unstepped ? Compared(metric, pair->b[metric]) : kNan;
          s.a.push_back(a);
          s.apart.push_back(b - a);
          any |= std::isfinite(b - a);
        }
        if (!any) continue;
        const double rounding = IsShare(metric) ? kShareFloor : relative;
        FillLimits(s, metric, read_, rounding, out_.deviations);
        groups_[{key.kind, metric}].push_back(std::move(s));
      }
    }
  }

  // Are the first sample's weights and input the same numbers, but for rounding?
  void JudgeStart() {
    int64_t weights = 0, other_weights = 0, inputs = 0, other_inputs = 0;
    for (const auto& [key, pair] : read_.sample.front().tensors) {
      if (key.kind != runs::kWeight && key.kind != runs::kInput) continue;
      const double limit = 2 * RoundingLimit(half_ulp_, 1);
      bool other = false;
      for (const int metric : {kAbsmax, kRms, kStd}) {
        const double scale = std::max({pair.a[kAbsmax], pair.b[kAbsmax], 1e-30});
        other |= std::fabs(pair.b[metric] - pair.a[metric]) > limit * scale;
      }
      (key.kind == runs::kWeight ? weights : inputs) += 1;
      if (other) (key.kind == runs::kWeight ? other_weights : other_inputs) += 1;
    }
    // One that is broken from the start is not another initialisation.
    if (weights > 0) out_.same_weights = 4 * other_weights <= weights;
    if (inputs > 0) out_.same_input = other_inputs == 0;
  }

  // A value that is finite in one run only needs no limit and no confirmation.
  void FindNonFinite() {
    std::map<TensorKey, bool> found;
    std::map<int64_t, GroupOutcome> outcomes;
    for (const Sample& sample : read_.sample) {
      for (const auto& [key, pair] : sample.tensors) {
        const double a = pair.a[kNonFinite], b = pair.b[kNonFinite];
        if ((a > 0) == (b > 0) || found[key]) continue;
        const bool backward = key.kind == runs::kGradient || key.kind == runs::kUpdate ||
                              key.kind == runs::kActivationGradient;
        if (backward && (a > 0 ? sample.step.skipped_a : sample.step.skipped_b)) {
          ++out_.excused;
          continue;
        }
        found[key] = true;
        GroupOutcome& outcome = outcomes[key.kind];
        outcome.kind = key.kind;
        outcome.metric = kNonFinite;
        ++outcome.parted;
        const TensorParting parting{
            key, kNonFinite, sample.step.step, a, b, 0, std::numeric_limits<double>::infinity()};
        Note(parting, outcome);
        all_.push_back(parting);
      }
    }
    for (auto& [kind, outcome] : outcomes) {
      const int64_t of_kind = kind;
      std::map<TensorKey, bool> keys;
      for (const Sample& sample : read_.sample) {
        for (const auto& entry : sample.tensors) {
          if (entry.first.kind == of_kind) keys[entry.first] = true;
        }
      }
      outcome.compared = static_cast<int64_t>(keys.size());
      out_.groups.push_back(outcome);
    }
  }

  void JudgeGroup(int64_t kind, int metric, const std::vector<Series>& group) {
    const size_t count = read_.sample.size();
    // reach[sample][0]: for tensors of which b is larger.
    std::vector<std::array<double, 2>> reach(count);
    for (size_t i = 0; i < count; ++i) {
      for (const int up : {1, 0}) {
        const int against = up ? -1 : 1;
        std::vector<double> moves = Moves(group, i, against);
        if (moves.size() < kEnoughForReach) {  // too few of this kind: those of all kinds
          for (const auto& [key, other] : groups_) {
            if (key.second != metric || key.first == kind) continue;
            const auto more = Moves(other, i, against);
            moves.insert(moves.end(), more.begin(), more.end());
          }
        }
        reach[i][up ? 0 : 1] = Reach(std::move(moves), out_.same_weights.value_or(true));
      }
    }
    GroupOutcome outcome;
    outcome.kind = kind;
    outcome.metric = metric;
    outcome.compared = static_cast<int64_t>(group.size());
    for (const Series& s : group) {
      const auto limit = [&](size_t i) {
        return s.own[i] + reach[i][s.apart[i] > 0 ? 0 : 1] * s.unit[i];
      };
      const auto side = [&](size_t i) {
        return std::fabs(s.apart[i]) > limit(i) ? (s.apart[i] > 0 ? 1 : -1) : 0;
      };
      size_t at = 0, run = 0;
      for (; at < count; ++at) {
        if (read_.Breaks(at) || (run > 0 && side(at) != side(at - 1))) run = 0;
        run = side(at) != 0 ? run + 1 : 0;
        if (run == std::min(kRun, count)) break;
      }
      if (at == count) continue;
      at = at + 1 - run;
      ++outcome.parted;
      const Pair& pair = *read_.sample[at].Find(s.key);
      const TensorParting parting{s.key,
                                  metric,
                                  read_.sample[at].step.step,
                                  pair.a[metric],
                                  pair.b[metric],
                                  IsShare(metric) ? limit(at) : std::expm1(limit(at)),
                                  std::fabs(s.apart[at]) / limit(at)};
      Note(parting, outcome);
      all_.push_back(parting);
    }
    out_.groups.push_back(std::move(outcome));
  }

  bool Before(const TensorParting& x, const TensorParting& y) const {
    if (x.step != y.step) return x.step < y.step;
    const auto place_x = PlaceInStep(x.key, layers_), place_y = PlaceInStep(y.key, layers_);
    if (place_x != place_y) return place_x < place_y;
    if (x.excess != y.excess) return x.excess > y.excess;
    return std::tie(x.key, x.metric) < std::tie(y.key, y.metric);
  }

  void Note(const TensorParting& parting, GroupOutcome& outcome) const {
    if (!outcome.first || Before(parting, *outcome.first)) outcome.first = parting;
    if (!outcome.worst || parting.excess > outcome.worst->excess) outcome.worst = parting;
  }

  // Samples between two groups were not looked at: the interval before the first parting is halved.
  Result<void> Narrow() {
    if (all_.empty()) return {};
    const int64_t step =
        std::min_element(all_.begin(), all_.end(), [](const auto& x, const auto& y) {
          return x.step < y.step;
        })->step;
    size_t at = 0;
    while (read_.sample[at].step.step != step) ++at;
    if (at == 0) return {};
    size_t low = read_.index[at - 1], high = read_.index[at];
    while (high - low > 1) {
      const size_t middle = low + (high - low) / 2;
      MPN_TRY_ASSIGN(auto sample, tensors_.Read(samples_[middle]));
      bool apart = false;
      for (TensorParting& parting : all_) {
        if (parting.step != samples_[high].step) continue;
        const Pair* pair = sample.Find(parting.key);
        if (!pair || !StillApart(parting, *pair)) continue;
        apart = true;
        parting.step = samples_[middle].step;
        parting.a = pair->a[parting.metric];
        parting.b = pair->b[parting.metric];
      }
      (apart ? high : low) = middle;
    }
    out_.last_together = samples_[low].step;
    return {};
  }

  static bool StillApart(const TensorParting& parting, const Pair& pair) {
    const double a = pair.a[parting.metric], b = pair.b[parting.metric];
    if (parting.metric == kNonFinite) return (a > 0) != (b > 0);
    const double apart = Compared(parting.metric, b) - Compared(parting.metric, a);
    const double limit = IsShare(parting.metric) ? parting.limit : std::log1p(parting.limit);
    return std::fabs(apart) > limit && (apart > 0) == (parting.b > parting.a);
  }

  void Finish() {
    std::sort(all_.begin(), all_.end(),
              [this](const auto& x, const auto& y) { return Before(x, y); });
    if (!all_.empty()) out_.first = all_.front();
    // What was narrowed down holds for its group as well.
    for (GroupOutcome& group : out_.groups) {
      const auto first = std::find_if(all_.begin(), all_.end(), [&](const TensorParting& p) {
        return p.key.kind == group.kind && p.metric == group.metric;
      });
      if (first != all_.end()) group.first = *first;
    }
    std::map<TensorKey, bool> told;
    for (const TensorParting& parting : all_) {
      if (told[parting.key]) continue;
      told[parting.key] = true;
      ++out_.parted_tensors;
      if (out_.partings.size() < kPartingsKept) out_.partings.push_back(parting);
    }
    std::stable_sort(out_.groups.begin(), out_.groups.end(),
                     [this](const GroupOutcome& x, const GroupOutcome& y) {
                       if (x.first.has_value() != y.first.has_value()) return x.first.has_value();
                       return x.first && Before(*x.first, *y.first);
                     });
    out_.samples_read = tensors_.samples_read();
    out_.dropped = tensors_.dropped();
    out_.common_samples = static_cast<int64_t>(samples_.size());
  }

  Tensors& tensors_;  // borrowed, as the three below
  const LayerPairs& layers_;
  const std::vector<SampledStep>& samples_;
  TensorComparison& out_;
  Read read_;
  Groups groups_;
  std::vector<TensorParting> all_;  // one a tensor and figure
  double half_ulp_ = 0;
};

}  // namespace

Result<TensorComparison> CompareTensors(Tensors& tensors, const LayerPairs& layers,
                                        const std::vector<SampledStep>& samples, bool at_start,
                                        double half_ulp_if_unknown) {
  TensorComparison comparison;
  Comparer comparer(tensors, layers, samples, comparison);
  MPN_TRY(comparer.Run(at_start, half_ulp_if_unknown));
  return comparison;
}

}  // namespace mpnanny::comparison
