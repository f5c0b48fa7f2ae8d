#include "engines/diagnosis/facts/progress.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "engines/diagnosis/facts/median.h"
#include "engines/runs/figure_sense.h"
#include "engines/runs/import/field.h"

namespace mpnanny::diagnosis {
namespace {

constexpr size_t kFewest = 5;        // values from which a way can be told
constexpr double kMoved = 0.03;      // of its size: less is no clear move
constexpr double kErrors = 3;        // standard errors that a move is beyond
constexpr double kGivenBack = 0.25;  // of its best move it may have lost again

constexpr int64_t kFewestStill = 20, kFewestLow = 8, kFewestZeros = 3;
constexpr double kLowScore = 0.1, kStillScore = 0.005;  // of a score between 0 and 1
constexpr double kStillLoss = 1e-3;                     // of its size: batches alone scatter more
constexpr double kHardlyFell = 0.2;                     // a loss that fell by more has converged
constexpr double kLossOfNothing = 0.01;

// A tenth of the blocks at each end, and the best tenth between.
struct Ends {
  double first = 0, last = 0, low = 0, high = 0, error = 0;
};

Ends EndsOf(const std::vector<Block>& blocks) {
  const size_t tenth = std::max<size_t>(1, blocks.size() / 10);
  const auto n = static_cast<double>(tenth);
  Ends ends;
  double sum = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    sum += blocks[i].mean - (i >= tenth ? blocks[i - tenth].mean : 0);
    if (i + 1 < tenth) continue;
    const double mean = sum / n;
    if (i + 1 == tenth) ends = {mean, mean, mean, mean, 0};
    ends.last = mean;
    ends.low = std::min(ends.low, mean);
    ends.high = std::max(ends.high, mean);
  }
  std::vector<double> changes;
  for (size_t i = 1; i < blocks.size(); ++i) {
    changes.push_back(std::fabs(blocks[i].mean - blocks[i - 1].mean));
  }
  ends.error = 1.05 * Median(changes) * std::sqrt(2 / n);
  return ends;
}

std::optional<Improved> ImprovedBy(const std::string& name, const BlockSeries& series, bool down) {
  const std::vector<Block>& blocks = series.blocks();
  if (blocks.size() < kFewest) return std::nullopt;
  const Ends ends = EndsOf(blocks);
  const double moved = down ? ends.first - ends.last : ends.last - ends.first;
  const double most = down ? ends.first - ends.low : ends.high - ends.first;
  const double size = std::max(std::fabs(ends.first), std::fabs(ends.last));
  if (moved <= kMoved * size || moved <= kErrors * ends.error) return std::nullopt;
  if (most - moved > kGivenBack * most + kErrors * ends.error) return std::nullopt;
  return Improved{name, ends.first, ends.last, series.count()};
}

// The last blocks from `from` on as one.
Still FromBlock(const std::string& name, const std::vector<Block>& blocks, size_t from) {
  Block all = blocks[from];
  for (size_t i = from + 1; i < blocks.size(); ++i) all.Take(blocks[i]);
  return {name, all.low, all.high, all.count, all.first_step};
}

std::optional<Still> LowScore(const std::string& name, const BlockSeries& series) {
  const std::vector<Block>& blocks = series.blocks();
  if (series.count() < kFewestLow) return std::nullopt;
  const Still still = FromBlock(name, blocks, blocks.size() / 10);
  const bool low = std::max(std::fabs(still.low), std::fabs(still.high)) <= kLowScore;
  return low && still.high - still.low <= kStillScore ? std::optional(still) : std::nullopt;
}

std::optional<Still> StillLoss(const BlockSeries& losses) {
  const std::vector<Block>& blocks = losses.blocks();
  if (blocks.empty()) return std::nullopt;
  const Still half = FromBlock("", blocks, blocks.size() / 2);
  const double size = std::fabs(half.high);
  if (half.count < kFewestStill || size < kLossOfNothing) return std::nullopt;
  if (half.high - half.low > kStillLoss * size) return std::nullopt;
  if (blocks.front().mean - half.high > kHardlyFell * std::fabs(blocks.front().mean)) {
    return std::nullopt;
  }
  size_t from = blocks.size() / 2;
  while (from > 0 && blocks[from - 1].high <= half.low + kStillLoss * size &&
         blocks[from - 1].low >= half.high - kStillLoss * size) {
    --from;
  }
  return FromBlock("", blocks, from);
}

// The end of a series that is exactly 0 there and was not before.
std::optional<Still> EndsAtZero(const runs::NamedSeries& series) {
  size_t from = series.values.size();
  while (from > 0 && series.values[from - 1].second == 0) --from;
  const auto zeros = static_cast<int64_t>(series.values.size() - from);
  if (from == 0 || zeros < kFewestStill || 4 * zeros < static_cast<int64_t>(series.values.size())) {
    return std::nullopt;
  }
  return Still{series.name, 0, 0, zeros, series.values[from].first};
}

bool IsZero(const runs::NamedSeries& series) {
  return std::all_of(series.values.begin(), series.values.end(),
                     [](const auto& point) { return point.second == 0; });
}

}  // namespace

std::string NameOfLoss(const summary::Summary& steps, std::span<const runs::NamedSeries> figures) {
  const runs::NamedSeries* best = nullptr;
  const auto rank = [](const runs::NamedSeries& series) {
    return imports::RankOf(imports::Field::kLoss, LowerCase(series.name));
  };
  for (const runs::NamedSeries& series : figures) {
    std::vector<double> finite;
    for (const auto& [step, value] : series.values) {
      if (std::isfinite(value)) finite.push_back(value);
    }
    if (finite.empty() || finite.front() != steps.loss_first) continue;
    const bool ends = steps.loss_last && std::isfinite(*steps.loss_last);
    if (ends && finite.back() != steps.loss_last) {
      continue;
    }
    if (*std::min_element(finite.begin(), finite.end()) != steps.loss_min) continue;
    const std::string name = LowerCase(series.name);
    const bool loss = imports::FieldOf(name) == imports::Field::kLoss || name == "total";
    if (loss && (!best || rank(series) > rank(*best))) best = &series;
  }
  if (!best) return "";
  std::string plain = LowerCase(best->name);
  std::replace_if(
      plain.begin(), plain.end(), [](char c) { return c == ' ' || c == '-' || c == '/'; }, '_');
  for (const char* simple : {"loss", "train_loss", "training_loss", "loss_train"}) {
    if (plain == simple) return "";
  }
  return best->name;
}

Progress FindProgress(const BlockSeries& losses, std::span<const runs::NamedSeries> figures) {
  Progress progress;
  const bool positive = std::all_of(losses.blocks().begin(), losses.blocks().end(),
                                    [](const Block& block) { return block.low >= 0; });
  if (positive) {
    progress.loss = ImprovedBy("", losses, /*down=*/true);
    progress.still_loss = StillLoss(losses);
  }
  const bool lives = !losses.blocks().empty() && losses.blocks().back().mean != 0;
  for (const runs::NamedSeries& series : figures) {
    if (lives && imports::FieldOf(LowerCase(series.name)) == imports::Field::kLoss) {
      if (auto ended = EndsAtZero(series)) progress.ended_part = *std::move(ended);
    }
    const runs::Sense sense = runs::SenseOf(series.name);
    if (sense != runs::Sense::kEvaluated && sense != runs::Sense::kError &&
        sense != runs::Sense::kScore)
      continue;
    BlockSeries values;
    for (const auto& [step, value] : series.values) values.Add(step, value);
    const bool score = sense == runs::Sense::kScore;
    if (score && values.count() >= kFewestZeros) {
      ++progress.scores_seen;
      if (IsZero(series)) {
        progress.zero_scores.push_back(
            {series.name, 0, 0, values.count(), series.values.front().first});
      }
    }
    if (values.count() < static_cast<int64_t>(kFewest)) continue;
    progress.scores_shown += score;
    const std::string lower = LowerCase(series.name);
    const bool reward =
        lower.find("rew") != std::string::npos || lower.find("return") != std::string::npos;
    progress.rewarded = progress.rewarded || (score && reward);
    auto improved = ImprovedBy(series.name, values, !score);
    if (improved) (score ? progress.scores : progress.evaluations).push_back(*std::move(improved));
    if (score) {
      if (auto low = LowScore(series.name, values)) progress.low_scores.push_back(*std::move(low));
    }
  }
  return progress;
}

}  // namespace mpnanny::diagnosis
