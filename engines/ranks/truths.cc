#include "engines/ranks/truths.h"

#include <algorithm>

#include "engines/ranks/judge.h"
#include "engines/runs/rank_figures.h"

namespace mpnanny::ranks {
namespace {

constexpr int64_t kMostRows = 400'000;  // about a second
constexpr size_t kLeastSteps = 6;
constexpr int kRefinements = 4;

// The first, the last and steps spread between: at most `most`.
std::vector<int64_t> Spread(const std::vector<int64_t>& steps, size_t most) {
  if (steps.size() <= most) return steps;
  std::vector<int64_t> chosen;
  for (size_t i = 0; i < most; ++i) chosen.push_back(steps[i * (steps.size() - 1) / (most - 1)]);
  return chosen;
}

Result<std::vector<Finding>> JudgeSteps(const runs::Source& source,
                                        const std::vector<int64_t>& steps) {
  Judge judge;
  for (const int64_t step : steps) {
    MPN_TRY(source.database->cancel().Check());
    MPN_TRY_ASSIGN(const runs::RankStep figures, runs::ReadRankStep(source, step));
    judge.Take(figures);
  }
  return judge.Finish();
}

}  // namespace

Result<Truths> ReadTruths(const runs::Source& source) {
  Truths truths;
  truths.ranks = runs::RanksOf(source);
  if (truths.ranks.size() < 2) return truths;
  MPN_TRY_ASSIGN(const std::vector<int64_t> all, runs::ComparedSteps(source));
  if (all.empty()) return truths;
  MPN_TRY_ASSIGN(const int64_t rows, runs::CountRankRows(source, all.front()));
  const size_t most =
      std::max(kLeastSteps, static_cast<size_t>(kMostRows / std::max<int64_t>(rows, 1)));
  std::vector<int64_t> steps = Spread(all, most);
  MPN_TRY_ASSIGN(truths.findings, JudgeSteps(source, steps));
  // The moment of the first fault, between two steps that were read.
  for (int i = 0; i < kRefinements && steps.size() < all.size() && !truths.findings.empty(); ++i) {
    const Finding& first = truths.findings.front();
    const auto end = std::lower_bound(all.begin(), all.end(), first.step);
    const auto begin =
        first.last_good ? std::upper_bound(all.begin(), all.end(), *first.last_good) : all.begin();
    if (end - begin < 1) break;
    std::vector<int64_t> between(begin, end);
    between = Spread(between, std::max<size_t>(2, most / 2));
    steps.insert(steps.end(), between.begin(), between.end());
    std::sort(steps.begin(), steps.end());
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    MPN_TRY_ASSIGN(truths.findings, JudgeSteps(source, steps));
  }
  truths.compared = steps.size();
  truths.left_out = all.size() - steps.size();
  truths.first = steps.front();
  truths.last = steps.back();
  return truths;
}

}  // namespace mpnanny::ranks
