// All figures of a batch beside a reference that is written otherwise.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "numerics/logprob_mismatch.h"

namespace mpnanny {
namespace {

// Packed rows of two documents each, a mask with holes, ids and experts.
struct Batch {
  static constexpr int64_t kRows = 6, kLength = 70;
  std::vector<double> trainer, rollout, mask, position, document, token, experts;

  explicit Batch(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> noise(0, 0.3);
    std::exponential_distribution<double> size(0.6);
    for (int64_t row = 0; row < kRows; ++row) {
      const int64_t boundary = 20 + 5 * row, padding = row % 3 == 0 ? 0 : row;
      for (int64_t place = 0; place < kLength; ++place) {
        rollout.push_back(-size(random));
        trainer.push_back(rollout.back() + noise(random));
        const bool second = place >= boundary;
        const int64_t at = second ? place - boundary : place;
        mask.push_back(at >= 7 && place % 11 != 3);
        position.push_back(static_cast<double>(at + 1));  // they need not begin with 0
        document.push_back(second ? 9 : 4);
        token.push_back(place < padding ? 7 : 100 + static_cast<double>(random() % 5000));
        experts.push_back(random() % 3 == 0);
      }
    }
  }
  LogprobPair Pair() const {
    LogprobPair pair;
    pair.rows = kRows, pair.length = kLength;
    pair.trainer = trainer, pair.rollout = rollout, pair.mask = mask;
    pair.position = position, pair.document = document, pair.token = token;
    pair.experts_differ = experts;
    return pair;
  }
};

int64_t LargestEdge(int64_t value) {
  int64_t found = 0;
  for (const int64_t edge : {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96}) {
    if (edge <= value) found = edge;
  }
  return found;
}

struct Reference {
  std::vector<double> differences, exposed;
  void Add(double trainer, double rollout) {
    differences.push_back(trainer - rollout);
    exposed.push_back(1 - std::exp(rollout));
  }
  static double RootMean(const std::vector<double>& values) {
    double squares = 0;
    for (const double value : values) squares += value * value;
    return std::sqrt(squares / static_cast<double>(values.size()));
  }
};

void ExpectGroup(const MismatchGroup& group, const Reference& expected) {
  std::vector<double> sizes;
  double sum = 0;
  for (const double d : expected.differences) {
    sum += d;
    sizes.push_back(std::fabs(d));
  }
  std::sort(sizes.begin(), sizes.end());
  const auto count = static_cast<double>(sizes.size());
  EXPECT_EQ(group.tokens, static_cast<int64_t>(sizes.size()));
  EXPECT_NEAR(group.mean, sum / count, 1e-12);
  EXPECT_NEAR(group.rms, Reference::RootMean(expected.differences), 1e-12);
  EXPECT_NEAR(group.exposure, Reference::RootMean(expected.exposed), 1e-12);
  EXPECT_EQ(group.largest, sizes.back());
  EXPECT_EQ(group.median, sizes[static_cast<size_t>(std::lround((count - 1) / 2 + 1e-9))]);
}

TEST(LogprobGroups, EachGroupHoldsItsTokensAndNoOthers) {
  const Batch batch(5);
  const auto found = CompareLogprobs(batch.Pair());
  std::map<std::pair<MismatchBy, int64_t>, Reference> expected;
  Reference all;
  double trainer = 0, rollout = 0;
  for (int64_t row = 0; row < Batch::kRows; ++row) {
    int64_t counted = 0, first = -1;
    for (int64_t place = 0; place < Batch::kLength; ++place) {
      const auto i = static_cast<size_t>(row * Batch::kLength + place);
      const bool second = batch.document[i] == 9;
      if (second && batch.document[i - 1] != 9) counted = 0;
      if (batch.mask[i] == 0) continue;
      if (first < 0) first = place;
      const auto add = [&](MismatchBy by, int64_t from) {
        expected[{by, from}].Add(batch.trainer[i], batch.rollout[i]);
      };
      add(MismatchBy::kPosition, LargestEdge(static_cast<int64_t>(batch.position[i])));
      add(MismatchBy::kAnswer, LargestEdge(counted++));
      add(MismatchBy::kDocument, second);
      add(MismatchBy::kPadding, LargestEdge(row % 3 == 0 ? 0 : row));
      add(MismatchBy::kAnswerStart, LargestEdge(first));
      if (second)
        add(MismatchBy::kAfterBoundary, LargestEdge(static_cast<int64_t>(batch.position[i]) - 1));
      const double p = std::exp(batch.rollout[i]);
      int64_t edge = 0;
      for (size_t e = 0; e < kProbabilityEdges.size(); ++e) {
        if (p >= kProbabilityEdges[e]) edge = static_cast<int64_t>(e);
      }
      add(MismatchBy::kProbability, edge);
      add(MismatchBy::kExperts, batch.experts[i] != 0);
      if (place > 0) add(MismatchBy::kExpertsBefore, batch.experts[i - 1] != 0);
      all.Add(batch.trainer[i], batch.rollout[i]);
      trainer += batch.trainer[i];
      rollout += batch.rollout[i];
    }
  }
  EXPECT_EQ(found.groups.size(), expected.size());
  for (const auto& [key, reference] : expected) {
    const auto group = std::find_if(found.groups.begin(), found.groups.end(),
                                    [&](const auto& g) { return std::pair(g.by, g.from) == key; });
    ASSERT_NE(group, found.groups.end()) << static_cast<int>(key.first) << " from " << key.second;
    ExpectGroup(*group, reference);
  }
  const auto count = static_cast<double>(all.differences.size());
  EXPECT_NEAR(found.exposure, Reference::RootMean(all.exposed), 1e-12);
  EXPECT_NEAR(found.trainer, trainer / count, 1e-12);
  EXPECT_NEAR(found.rollout, rollout / count, 1e-12);
}

TEST(LogprobGroups, QuantilesAndWorstTokensAreThoseOfTheSortedSizes) {
  const Batch batch(6);
  const auto found = CompareLogprobs(batch.Pair());
  std::vector<std::pair<double, size_t>> sizes;
  for (size_t i = 0; i < batch.mask.size(); ++i) {
    if (batch.mask[i] != 0) sizes.push_back({std::fabs(batch.trainer[i] - batch.rollout[i]), i});
  }
  std::sort(sizes.begin(), sizes.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(sizes.size() - 1);
    return sizes[static_cast<size_t>(std::lround(place + 1e-9))].first;
  };
  EXPECT_EQ(found.median, at(0.5));
  EXPECT_EQ(found.p99, at(0.99));
  EXPECT_EQ(found.p999, at(0.999));
  EXPECT_EQ(found.largest, sizes.back().first);
  ASSERT_EQ(found.worst.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const size_t index = sizes[sizes.size() - 1 - i].second;
    EXPECT_EQ(found.worst[i].row, static_cast<int64_t>(index) / Batch::kLength);
    EXPECT_EQ(found.worst[i].place, static_cast<int64_t>(index) % Batch::kLength);
    EXPECT_EQ(found.worst[i].token, static_cast<int64_t>(batch.token[index]));
    EXPECT_EQ(found.worst[i].trainer, batch.trainer[index]);
    EXPECT_EQ(found.worst[i].rollout, batch.rollout[index]);
  }
}

TEST(LogprobGroups, NeighboursAreThoseThatBothCount) {
  const Batch batch(7);
  const auto found = CompareLogprobs(batch.Pair());
  std::vector<double> before, after;
  for (size_t i = 1; i < batch.mask.size(); ++i) {
    if (i % Batch::kLength == 0 || batch.mask[i] == 0 || batch.mask[i - 1] == 0) continue;
    before.push_back(batch.trainer[i] - batch.rollout[i - 1]);
    after.push_back(batch.trainer[i - 1] - batch.rollout[i]);
  }
  EXPECT_NEAR(found.rms_before, Reference::RootMean(before), 1e-12);
  EXPECT_NEAR(found.rms_after, Reference::RootMean(after), 1e-12);
}

// The id of padding is the one with which rows begin twice and more; what counts is none.
TEST(LogprobGroups, PaddingIsWhatRowsBeginWith) {
  const std::vector<double> p(24, -1), token = {0, 0, 0, 5, 6, 7,   // three of padding
                                                0, 8, 9, 5, 6, 7,   // one
                                                4, 8, 9, 5, 6, 7,   // none
                                                0, 0, 0, 0, 6, 7};  // two: the others count
  const std::vector<double> mask = {0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1,
                                    0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 1};
  LogprobPair pair;
  pair.rows = 4, pair.length = 6;
  pair.trainer = pair.rollout = p;
  pair.token = token, pair.mask = mask;
  std::map<int64_t, int64_t> tokens;
  for (const MismatchGroup& group : CompareLogprobs(pair).groups) {
    if (group.by == MismatchBy::kPadding) tokens[group.from] = group.tokens;
  }
  EXPECT_EQ(tokens, (std::map<int64_t, int64_t>{{0, 2}, {1, 2}, {2, 4}, {3, 2}}));
  // Rows that begin with different tokens have none.
  const std::vector<double> other = {1, 2, 3, 4, 5, 6, 2, 3, 4, 5, 6, 7,
                                     3, 4, 5, 6, 7, 8, 4, 5, 6, 7, 8, 9};
  pair.token = other;
  for (const MismatchGroup& group : CompareLogprobs(pair).groups)
    EXPECT_NE(group.by, MismatchBy::kPadding);
}

}  // namespace
}  // namespace mpnanny
