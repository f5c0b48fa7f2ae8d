// Each shape, and the nearest comparison that has it not.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "engines/mismatch/judge.h"
#include "engines/mismatch/words.h"
#include "numerics/format.h"
#include "numerics/logprob_mismatch.h"

namespace mpnanny::mismatch {
namespace {

constexpr int64_t kRows = 16, kLength = 40, kPrompt = 8;

// What the rollout differs by at a token: row, place, the trainer's log-probability.
using Difference = std::function<double(int64_t row, int64_t place, double logprob)>;

struct Made {
  std::vector<double> document, position, differ, token;
  double noise = 0;  // in each logit, on top
  uint32_t seed = 1;
  std::function<bool(int64_t row, int64_t place)> certain;  // of a probability near 1
};

Call CallOf(const Difference& difference, const Made& made = {}, int64_t step = 0) {
  std::mt19937 random(made.seed + static_cast<uint32_t>(step));
  std::exponential_distribution<double> draw(0.7);
  std::normal_distribution<double> normal;
  const size_t size = kRows * kLength;
  std::vector<double> trainer(size), rollout(size), mask(size);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t place = 0; place < kLength; ++place) {
      const auto index = static_cast<size_t>(row * kLength + place);
      trainer[index] = -draw(random);
      if (made.certain && made.certain(row, place)) trainer[index] *= 0.01;
      const double exposed = 1 - std::exp(trainer[index]);
      const double by =
          difference(row, place, trainer[index]) + made.noise * exposed * normal(random);
      rollout[index] = std::min(0.0, trainer[index] - by);
      mask[index] = place >= kPrompt;
    }
  }
  LogprobPair pair;
  pair.rows = kRows;
  pair.length = kLength;
  pair.trainer = trainer;
  pair.rollout = rollout;
  pair.mask = mask;
  pair.document = made.document;
  pair.position = made.position;
  pair.experts_differ = made.differ;
  pair.token = made.token;
  Call call;
  call.step = step;
  call.figures = CompareLogprobs(pair);
  return call;
}

// Larger errors for rarer tokens, as an error of logits gives, of no direction.
double Spread(int64_t row, int64_t place, double logprob, double size) {
  const uint32_t mixed = static_cast<uint32_t>(row * 7919 + place * 104729 + 12345) * 2654435761u;
  const double sign = mixed >> 31 ? 1 : -1;
  return sign * size * (1 - std::exp(logprob)) * (0.5 + (mixed >> 8 & 255) / 255.0);
}

Difference Of(double size) {
  return [=](int64_t row, int64_t place, double p) { return Spread(row, place, p, size); };
}

Shape ShapeOf(std::vector<Call> calls) { return Judge(calls).finding.shape; }

TEST(MismatchJudge, NothingToCompareIsNotEstablished) {
  EXPECT_EQ(Judge({}).agreement, Agreement::kNotEstablished);
  const std::vector<Call> calls(1);
  EXPECT_EQ(Judge(calls).agreement, Agreement::kNotEstablished);
  EXPECT_FALSE(WordsOf(Judge(calls), calls).title.empty());
}

TEST(MismatchJudge, EqualAndSixteenBitsAgree) {
  EXPECT_EQ(ShapeOf({CallOf(Of(0))}), Shape::kNone);
  const std::vector<Call> low = {CallOf(Of(0.03)), CallOf(Of(0.02), {}, 1),
                                 CallOf(Of(0.03), {}, 2)};
  EXPECT_EQ(Judge(low).finding.shape, Shape::kRareTokens);
  EXPECT_EQ(Judge(low).agreement, Agreement::kAgree);
}

TEST(MismatchJudge, MoreThanSixteenBitsEverywhereIsAnOffset) {
  const std::vector<Call> calls = {CallOf(Of(0.4)), CallOf(Of(0.4), {}, 1), CallOf(Of(0.4), {}, 2)};
  EXPECT_EQ(Judge(calls).finding.shape, Shape::kOffset);
  EXPECT_NE(Judge(calls).agreement, Agreement::kAgree);
}

TEST(MismatchJudge, LaterDocumentsOfARow) {
  Made made;
  for (int64_t i = 0; i < kRows * kLength; ++i) made.document.push_back(i % kLength / 10);
  for (const double noise : {0.0, 0.01}) {
    made.noise = noise;
    const Difference later = [](int64_t row, int64_t place, double p) {
      return place >= 10 ? Spread(row, place, p, 0.5) : 0;
    };
    EXPECT_EQ(ShapeOf({CallOf(later, made)}), Shape::kDocuments) << noise;
  }
  // All documents alike.
  EXPECT_EQ(ShapeOf({CallOf(Of(0.5), made)}), Shape::kOffset);
}

TEST(MismatchJudge, FromAPositionOn) {
  const Difference late = [](int64_t row, int64_t place, double p) {
    return place >= 24 ? Spread(row, place, p, 0.3) : 0;
  };
  const std::vector<Call> calls = {CallOf(late)};
  EXPECT_EQ(Judge(calls).finding.shape, Shape::kPosition);
  EXPECT_EQ(Judge(calls).finding.from, 24);
}

TEST(MismatchJudge, GrowingWithThePosition) {
  const Difference growing = [](int64_t row, int64_t place, double p) {
    return Spread(row, place, p, 0.0005 * std::pow(1.25, static_cast<double>(place - kPrompt)));
  };
  EXPECT_EQ(ShapeOf({CallOf(growing)}), Shape::kPosition);
  const Difference a_little = [](int64_t row, int64_t place, double p) {
    return Spread(row, place, p, 0.02 * (1 + static_cast<double>(place) / kLength));
  };
  EXPECT_EQ(ShapeOf({CallOf(a_little)}), Shape::kRareTokens);
}

TEST(MismatchJudge, AllButTheFirstTokenOfAnAnswer) {
  const Difference decoded = [](int64_t row, int64_t place, double p) {
    return place > kPrompt ? Spread(row, place, p, 0.05) : 0;
  };
  EXPECT_EQ(ShapeOf({CallOf(decoded)}), Shape::kDecoding);
}

TEST(MismatchJudge, OtherExperts) {
  Made made;
  made.noise = 0.01;
  for (int64_t i = 0; i < kRows * kLength; ++i) made.differ.push_back(i % 11 == 0);
  const Difference routed = [](int64_t row, int64_t place, double p) {
    return (row * kLength + place) % 11 == 0 ? Spread(row, place, p, 0.8) : 0;
  };
  const std::vector<Call> calls = {CallOf(routed, made)};
  EXPECT_EQ(Judge(calls).finding.shape, Shape::kRouting);
  EXPECT_NEAR(Judge(calls).finding.value, 1.0 / 11, 0.02);
  // As the token is laid out whose pass it was.
  Made shifted = made;
  for (int64_t i = 0; i < kRows * kLength; ++i)
    shifted.differ[static_cast<size_t>(i)] = (i + 1) % 11 == 0;
  EXPECT_EQ(ShapeOf({CallOf(routed, shifted)}), Shape::kRouting);
  // Other experts, but they change nothing.
  EXPECT_EQ(ShapeOf({CallOf(Of(0.01), made)}), Shape::kRareTokens);
}

// Rows whose tokens are nearly certain hide what the others show.
TEST(MismatchJudge, CertainRowsAndPlacesAreNoContrast) {
  Made made;
  made.certain = [](int64_t row, int64_t place) { return row < 8 || place < 20; };
  const std::vector<Call> calls = {CallOf(Of(0.4), made)};
  EXPECT_EQ(Judge(calls).finding.shape, Shape::kOffset);
}

TEST(MismatchJudge, SomeRows) {
  const Difference rows = [](int64_t row, int64_t place, double p) {
    return row < 4 ? Spread(row, place, p, 0.6) : 0;
  };
  EXPECT_EQ(ShapeOf({CallOf(rows)}), Shape::kRows);
}

std::vector<Call> OverTime(const std::vector<double>& sizes, double noise = 0) {
  std::vector<Call> calls;
  Made made;
  made.noise = noise;
  for (const double size : sizes)
    calls.push_back(CallOf(Of(size), made, static_cast<int64_t>(calls.size())));
  return calls;
}

TEST(MismatchJudge, GrowingFromAgreementIsStale) {
  EXPECT_EQ(ShapeOf(OverTime({0, 0.1, 0.2, 0.3, 0.4})), Shape::kStale);
  EXPECT_EQ(ShapeOf(OverTime({0, 0.3, 0.5, 0.6}, 0.02)), Shape::kStale);
  // As much from the start on.
  EXPECT_EQ(ShapeOf(OverTime({0.3, 0.3, 0.4, 0.4})), Shape::kOffset);
  // 16 bits whose error varies.
  EXPECT_EQ(ShapeOf(OverTime({0.01, 0.02, 0.03, 0.02})), Shape::kRareTokens);
}

TEST(MismatchJudge, CopiesOfTheWeightsAreBelieved) {
  auto calls = OverTime({0.01, 0.2, 0.3, 0.01, 0.2, 0.3}, 0.005);
  for (size_t i = 0; i < calls.size(); ++i) calls[i].synced = i % 3 == 0;
  EXPECT_EQ(Judge(calls).finding.shape, Shape::kStale);
  EXPECT_EQ(Judge(calls).finding.from, 1);
  // Copied before each of them, and it grows.
  auto growing = OverTime({0.01, 0.1, 0.4, 0.8});
  for (Call& call : growing) call.synced = true;
  EXPECT_EQ(Judge(growing).finding.shape, Shape::kGrows);
}

// Sides that agreed to the last digits have the same code: a copy that is said to have been made
// and changes that is none.
TEST(MismatchJudge, ACopyThatIsSaidAndIsNone) {
  auto calls = OverTime({0, 0.1, 0.2, 0.2});
  for (Call& call : calls) call.synced = true;
  const Judgement judgement = Judge(calls);
  EXPECT_EQ(judgement.finding.shape, Shape::kStale);
  EXPECT_TRUE(judgement.finding.claimed);
  EXPECT_NE(WordsOf(judgement, calls).title.English().find("although each call says"),
            std::string::npos);
  for (Call& call : calls) call.synced.reset();
  EXPECT_FALSE(Judge(calls).finding.claimed);
}

TEST(MismatchJudge, RowsWithPaddingBeforeTheirText) {
  const auto padded = [](const std::function<int64_t(int64_t row)>& padding) {
    return [padding](int64_t row, int64_t, double) { return padding(row) > 0 ? 0.2 : 0.0; };
  };
  Made made;
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t place = 0; place < kLength; ++place)
      made.token.push_back(place < row % 4 * 2 ? 0 : 1 + row);
  }
  const auto finding =
      Judge(std::vector{CallOf(padded([](int64_t row) { return row % 4; }), made)}).finding;
  EXPECT_EQ(finding.shape, Shape::kPadding);
  EXPECT_EQ(finding.from, 2);
  // Other rows than those with padding.
  EXPECT_NE(ShapeOf({CallOf(padded([](int64_t row) { return row % 3; }), made)}), Shape::kPadding);
}

TEST(MismatchJudge, ARateOfZeroIsSaid) {
  auto calls = OverTime({0, 0.1, 0.2, 0.3});
  for (Call& call : calls) call.lr = 0;
  EXPECT_NE(WordsOf(Judge(calls), calls).measured.English().find("learning rate is 0"),
            std::string::npos);
  calls[1].lr = 1e-6;
  EXPECT_EQ(WordsOf(Judge(calls), calls).measured.English().find("learning rate is 0"),
            std::string::npos);
}

TEST(MismatchJudge, ProbabilitiesOverWhatWasKept) {
  const Difference truncated = [](int64_t, int64_t place, double p) {
    return p > -0.1 ? 0 : -0.02 * (1 + static_cast<double>(place % 5));
  };
  EXPECT_EQ(ShapeOf({CallOf(truncated)}), Shape::kTruncated);
}

TEST(MismatchJudge, AWayOfTheHead) {
  auto calls = OverTime({0.03, 0.03});
  calls[1].head = {{"fp32", 0, 1e-6, 0.03},
                   {"logits_bf16", 0, 0.02, 0.025},
                   {"head_and_logits_bf16", 0, 0.03, 1e-5}};
  EXPECT_EQ(Judge(calls).finding.shape, Shape::kHead);
  EXPECT_EQ(Judge(calls).finding.way, "head_and_logits_bf16");
  EXPECT_FALSE(Judge(calls).finding.of_trainer);
  // Both sides have that head: it is no difference between them.
  calls[1].head = {{"fp32", 0, 0.03, 0.03}, {"head_and_logits_bf16", 0, 1e-6, 1e-6}};
  EXPECT_NE(Judge(calls).finding.shape, Shape::kHead);
  // No way comes nearer.
  calls[1].head = {{"fp32", 0, 1e-6, 0.03}, {"head_and_logits_bf16", 0, 0.03, 0.028}};
  EXPECT_TRUE(Judge(calls).head_excluded);
  EXPECT_NE(WordsOf(Judge(calls), calls).measured.English().find("It is not the head"),
            std::string::npos);
  // The engine's come out of the trainer's own head, and the trainer's by no way.
  calls[1].head = {{"fp32", 0, 0.03, 1e-6}, {"softcap", 5, 0.02, 0.01}};
  EXPECT_EQ(Judge(calls).finding.shape, Shape::kHead);
  EXPECT_TRUE(Judge(calls).finding.way.empty());
  EXPECT_NE(WordsOf(Judge(calls), calls).title.English().find("more to its logits"),
            std::string::npos);
}

TEST(MismatchJudge, StoredInSixteenBits) {
  const Difference rounded = [](int64_t, int64_t, double p) {
    return p - RoundTo(Format::kBf16, p);
  };
  EXPECT_EQ(ShapeOf({CallOf(rounded)}), Shape::kStored);
}

TEST(MismatchJudge, WhatIsNotFiniteIsBroken) {
  auto calls = OverTime({0, 0});
  calls[1].figures.bad_rollout = 2;
  EXPECT_EQ(Judge(calls).finding.shape, Shape::kNotFinite);
  EXPECT_EQ(Judge(calls).agreement, Agreement::kBroken);
}

}  // namespace
}  // namespace mpnanny::mismatch
