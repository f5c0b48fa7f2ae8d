// The norm that gradients are clipped by, beside that of the gradients of all ranks.
#include <algorithm>
#include <cmath>

#include "engines/ranks/judge.h"

namespace mpnanny::ranks {
namespace {

constexpr double kNormApart = 0.004;  // a norm of BF16 gradients is off by 0.002
constexpr double kRecognised = 1e-3;  // of a sum of squares that the program reduces by hand
constexpr int kByHandSteps = 3;       // in which it must be so
constexpr Moment kMoments[] = {Moment::kAfterBackward, Moment::kClipped, Moment::kUsed};

// Square of the norm over all ranks: what several hold counts once. Absent where that is not known:
// gradients that were not reduced yet.
std::optional<double> TrueSquare(const runs::RankStep& step, Moment moment, bool exactly,
                                 const std::map<std::string, bool>& began_same) {
  double sum = 0;
  bool any = false;
  for (const auto& [name, tensor] : step.tensors) {
    std::map<int64_t, double> by_hash;
    for (const auto& [rank, each] : tensor) {
      const TensorFigure* gradient =
          exactly ? (each[moment] ? &*each[moment] : nullptr) : each.Gradient(moment);
      if (!gradient) continue;
      if (!gradient->has_norm || gradient->nonfinite > 0) return std::nullopt;
      any = true;
      const double square = gradient->l2 * gradient->l2;
      by_hash[gradient->hash] = square;
    }
    const auto same = began_same.find(name);
    // Shards differ; what began the same on all ranks and differs now was not reduced.
    if (by_hash.size() > 1 && !IsSharded(tensor) && same != began_same.end() && same->second)
      return std::nullopt;
    for (const auto& [hash, square] : by_hash) sum += square;
  }
  return any ? std::optional(sum) : std::nullopt;
}

double OwnSquare(const runs::RankStep& step, Moment moment, int64_t rank) {
  double sum = 0;
  for (const auto& [name, tensor] : step.tensors) {
    const auto each = tensor.find(rank);
    if (each == tensor.end()) continue;
    if (const TensorFigure* gradient = each->second.Gradient(moment))
      sum += gradient->l2 * gradient->l2;
  }
  return sum;
}

bool Near(double a, double b, double by) {
  return std::fabs(a - b) <= by * std::max(std::fabs(a), std::fabs(b));
}

// The factor s for which each rank put in s times the sum of squares of its own gradients: 1, or
// where gradients were scaled between the sum and the moment what that made of it. Absent: it put
// in something else. Equal sums on all ranks prove no factor.
std::optional<double> ScaleOfSquares(const runs::RankStep& step, Moment moment,
                                     const std::vector<const runs::RankCollective*>& calls) {
  double least = INFINITY, most = 0, least_own = INFINITY, most_own = 0;
  for (const auto* call : calls) {
    const double own = OwnSquare(step, moment, call->rank);
    if (!(own > 0) || !(*call->value_in > 0)) return std::nullopt;
    least = std::min(least, *call->value_in / own);
    most = std::max(most, *call->value_in / own);
    least_own = std::min(least_own, own);
    most_own = std::max(most_own, own);
  }
  if (!Near(least, most, kRecognised)) return std::nullopt;
  if (Near(least, 1, kRecognised)) return 1;
  return Near(least_own, most_own, kNormApart) ? std::nullopt : std::optional(least);
}

}  // namespace

void Judge::TakeNorms(const runs::RankStep& step) {
  std::map<std::string, bool> began_same;
  for (const auto& [name, state] : states_) began_same[name] = state.same_at_first.value_or(false);
  const auto tell = [&](int64_t at, double norm, double truth, bool own,
                        const std::string& source) {
    if (!(truth > 0) || Near(norm, truth, kNormApart)) return;
    Finding* finding = Add(Fault::kNormWrong, at, "");
    if (!finding || finding->other != 0) return;
    finding->value = norm;
    finding->other = truth;
    finding->of_own_shards = own;
    finding->source = source;
  };
  // What clip_grad_norm_() was given.
  std::map<int64_t, double> said;
  for (const runs::RankNorm& norm : step.norms) said[norm.rank] += norm.norm * norm.norm;
  if (said.size() == ranks_.size()) {
    if (const auto square = TrueSquare(step, Moment::kClipped, true, began_same)) {
      for (const auto& [rank, norm] : said) {
        const bool own = Near(norm, OwnSquare(step, Moment::kClipped, rank), kNormApart);
        tell(step.step, std::sqrt(norm), std::sqrt(*square), own, "");
      }
    }
  }
  // By hand: a sum of squares of each rank's gradients that is summed over ranks.
  std::map<int64_t, std::vector<const runs::RankCollective*>> by_sequence;
  for (const runs::RankCollective& call : step.collectives) {
    if (call.reduction == "sum" && call.numel == 1 && call.value_in && call.value_out)
      by_sequence[call.sequence].push_back(&call);
  }
  for (const auto& [sequence, calls] : by_sequence) {
    if (calls.size() != ranks_.size()) continue;
    for (const Moment moment : kMoments) {
      const std::optional<double> scale = ScaleOfSquares(step, moment, calls);
      const auto square = scale ? TrueSquare(step, moment, false, began_same) : std::nullopt;
      if (!square || !(*calls[0]->value_out > 0)) continue;
      const double norm = std::sqrt(*calls[0]->value_out), truth = std::sqrt(*scale * *square);
      if (Near(truth, norm, kNormApart)) break;
      if (by_hand_.empty()) by_hand_ = {step.step, norm, truth};
      if (++by_hand_.steps == kByHandSteps)
        tell(by_hand_.step, by_hand_.norm, by_hand_.truth, false, calls[0]->source);
      break;
    }
  }
}

}  // namespace mpnanny::ranks
