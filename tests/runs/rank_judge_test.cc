// Faults between ranks, judged from figures: each just so, and the nearest that is none. The
// tensors are plain vectors here, their figures those of numerics/rank_figures.h.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engines/ranks/judge.h"
#include "numerics/rank_figures.h"

namespace mpnanny::ranks {
namespace {

using Vector = std::vector<float>;

Vector Random(uint32_t seed, size_t count = 32) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Vector made(count);
  for (float& each : made) each = normal(random);
  return made;
}

Vector Times(Vector of, float factor) {
  for (float& each : of) each *= factor;
  return of;
}

Vector Sum(const Vector& a, const Vector& b, float factor = 1) {
  Vector made(a.size());
  for (size_t i = 0; i < a.size(); ++i) made[i] = factor * (a[i] + b[i]);
  return made;
}

TensorFigure FigureOf(const Vector& values, const std::string& holders = "", int64_t first = 0) {
  const auto count = static_cast<int64_t>(values.size());
  const RankFigures found =
      ComputeRankFigures({values.data(), DType::kFloat32, std::span(&count, 1), {}}, first);
  TensorFigure figure;
  figure.hash = static_cast<int64_t>(found.hash);
  figure.numel = found.numel;
  figure.nonfinite = found.nonfinite;
  figure.first = first;
  figure.holders = holders;
  figure.l2 = std::sqrt(found.squares);
  figure.a = found.sketch[0];
  figure.b = found.sketch[1];
  return figure;
}

// A data-parallel training of two ranks with three tensors; a test changes what it is about.
class RankJudge : public ::testing::Test {
 protected:
  static constexpr const char* kNames[] = {"a.weight", "b.weight", "c.weight"};

  runs::RankStep Step(int64_t number, const std::string& holders = "0-1") {
    runs::RankStep step;
    step.step = number;
    uint32_t seed = 100 * static_cast<uint32_t>(number);
    for (const char* name : kNames) {
      const Vector own[2] = {Random(++seed), Random(++seed)};
      const Vector mean = Sum(own[0], own[1], 0.5);
      const Vector parameter = Random(static_cast<uint32_t>(name[0]) + 7 * seed);
      for (int64_t rank = 0; rank < 2; ++rank) {
        Put(step, name, rank, Moment::kParameter, parameter, holders);
        Put(step, name, rank, Moment::kDerived, own[rank]);
        Put(step, name, rank, Moment::kAfterBackward, mean, holders);
      }
    }
    return step;
  }

  static void Put(runs::RankStep& step, const std::string& name, int64_t rank, Moment moment,
                  const Vector& values, const std::string& holders = "", int64_t first = 0) {
    step.tensors[name][rank].at[static_cast<size_t>(moment)] = FigureOf(values, holders, first);
  }

  static std::vector<Finding> Judged(const std::vector<runs::RankStep>& steps) {
    Judge judge;
    for (const runs::RankStep& step : steps) judge.Take(step);
    return judge.Finish();
  }

  static const Finding* Find(const std::vector<Finding>& findings, Fault fault) {
    for (const Finding& each : findings) {
      if (each.fault == fault) return &each;
    }
    return nullptr;
  }
};

TEST_F(RankJudge, NothingIsWrongWithAHealthyTraining) {
  EXPECT_TRUE(Judged({Step(0), Step(1), Step(2)}).empty());
  // Nor where nothing says who holds the same.
  EXPECT_TRUE(Judged({Step(0, ""), Step(1, ""), Step(2, "")}).empty());
}

TEST_F(RankJudge, AGradientThatStaysEachRanksOwnIsNotReduced) {
  runs::RankStep step = Step(1);
  for (int64_t rank = 0; rank < 2; ++rank)
    step.tensors["b.weight"][rank].at[static_cast<size_t>(Moment::kAfterBackward)].reset();
  const auto found = Judged({Step(0), step, Step(2)});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].fault, Fault::kNotReduced);
  EXPECT_EQ(found[0].step, 1);
  EXPECT_EQ(found[0].last_good, 0);
  EXPECT_EQ(found[0].tensors, std::vector<std::string>{"b.weight"});
  // The same without a word of the program about who holds what, scaled on the way.
  runs::RankStep silent = Step(1, "");
  for (int64_t rank = 0; rank < 2; ++rank) {
    const Vector own = Random(static_cast<uint32_t>(103 + rank));  // as Step() makes them
    Put(silent, "b.weight", rank, Moment::kDerived, own);
    Put(silent, "b.weight", rank, Moment::kAfterBackward, Times(own, 0.25));
  }
  const auto again = Judged({Step(0, ""), silent});
  ASSERT_TRUE(Find(again, Fault::kNotReduced));
}

TEST_F(RankJudge, ALocalParameterIsNoFault) {
  std::vector<runs::RankStep> steps;
  for (int64_t number = 0; number < 3; ++number) {
    runs::RankStep step = Step(number, "");
    for (int64_t rank = 0; rank < 2; ++rank) {
      const auto seed = static_cast<uint32_t>(900 + 10 * number + rank);
      Put(step, "expert", rank, Moment::kParameter, Random(seed));
      Put(step, "expert", rank, Moment::kDerived, Random(seed + 50));
    }
    steps.push_back(std::move(step));
  }
  const auto found = Judged(steps);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].fault, Fault::kLocalParameter);
  // Where its gradient is reduced it should have been the same.
  for (runs::RankStep& step : steps) {
    for (int64_t rank = 0; rank < 2; ++rank)
      Put(step, "expert", rank, Moment::kUsed, Random(static_cast<uint32_t>(5000 + step.step)));
  }
  EXPECT_TRUE(Find(Judged(steps), Fault::kParameterDiffers));
}

TEST_F(RankJudge, AParameterThatPartsThoughItsGradientsWereTheSame) {
  runs::RankStep parted = Step(2);
  Put(parted, "c.weight", 1, Moment::kParameter, Random(1), "0-1");
  const auto found = Judged({Step(0), Step(1), parted});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].fault, Fault::kParameterParts);
  EXPECT_EQ(found[0].step, 2);
  EXPECT_EQ(found[0].ranks, std::vector<int64_t>{1});
  // Ranks that come together again train alone for some steps on purpose.
  EXPECT_TRUE(Judged({Step(0), Step(1), parted, Step(3)}).empty());
}

TEST_F(RankJudge, OneTensorThatIsReducedByAnotherRule) {
  runs::RankStep step = Step(0);
  for (int64_t rank = 0; rank < 2; ++rank) {
    const Vector twice = Sum(Random(3), Random(4));  // the sum, where others get the mean
    Put(step, "b.weight", rank, Moment::kAfterBackward, twice, "0-1");
  }
  const auto found = Judged({step});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].fault, Fault::kNotTheMean);
  EXPECT_NEAR(found[0].value, 2, 0.05);
  // A sum of all of them is a choice.
  for (size_t at = 0; at < 3; ++at) {
    const auto seed = static_cast<uint32_t>(2 * at + 1);
    for (int64_t rank = 0; rank < 2; ++rank)
      Put(step, kNames[at], rank, Moment::kAfterBackward, Sum(Random(seed), Random(seed + 1)),
          "0-1");
  }
  EXPECT_TRUE(Judged({step}).empty());
}

TEST_F(RankJudge, SumsOfWhatIsTheSameAlready) {
  runs::RankStep step = Step(0);
  for (int64_t rank = 0; rank < 2; ++rank) {
    runs::RankCollective call;
    call.rank = rank;
    call.operation = "all_reduce";
    call.reduction = "sum";
    call.ranks = "0-1";
    call.tensor = "a.weight";
    call.gradient = true;
    call.hash_in = 5;
    call.l2_in = 1;
    step.collectives.push_back(call);
  }
  const auto found = Judged({step});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].fault, Fault::kReducedTwice);
  EXPECT_EQ(found[0].value, 2);
  step.collectives[1].hash_in = 6;
  EXPECT_TRUE(Judged({step}).empty());
}

TEST_F(RankJudge, ABufferThatNobodyWritesTo) {
  std::vector<runs::RankStep> steps;
  for (int64_t number = 0; number < 3; ++number) {
    runs::RankStep step = Step(number);
    for (int64_t rank = 0; rank < 2; ++rank)
      Put(step, "table", rank, Moment::kBuffer, Random(static_cast<uint32_t>(70 + rank)));
    steps.push_back(std::move(step));
  }
  ASSERT_TRUE(Find(Judged(steps), Fault::kBufferDiffers));
  // Running statistics are each rank's own.
  Put(steps[2], "table", 0, Moment::kBuffer, Random(99));
  EXPECT_TRUE(Judged(steps).empty());
}

TEST_F(RankJudge, ShardsThatAreScaledByDifferentFactors) {
  const auto shards = [](float one, float other) {
    runs::RankStep step;
    uint32_t seed = 0;
    for (const char* name : kNames) {
      for (int64_t rank = 0; rank < 2; ++rank) {
        const std::string holder = std::to_string(rank);
        const Vector gradient = Random(++seed);
        Put(step, name, rank, Moment::kParameter, Random(50 + seed), holder, 32 * rank);
        Put(step, name, rank, Moment::kAfterBackward, gradient, holder, 32 * rank);
        Put(step, name, rank, Moment::kUsed, Times(gradient, rank == 0 ? one : other), holder,
            32 * rank);
      }
    }
    return step;
  };
  const auto found = Judged({shards(0.5, 0.7F)});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].fault, Fault::kFactorsDiffer);
  EXPECT_NEAR(found[0].value, 0.5, 1e-3);
  EXPECT_NEAR(found[0].other, 0.7, 1e-3);
  EXPECT_TRUE(Judged({shards(0.5, 0.5)}).empty());
}

TEST_F(RankJudge, TheNormOfAllRanksBesideThatOfOne) {
  runs::RankStep step;
  double squares = 0, own = 0;
  uint32_t seed = 0;
  for (const char* name : kNames) {
    for (int64_t rank = 0; rank < 2; ++rank) {
      const Vector gradient = Random(++seed);
      const double l2 = FigureOf(gradient).l2;
      squares += l2 * l2;
      if (rank == 0) own += l2 * l2;
      Put(step, name, rank, Moment::kParameter, Random(50 + seed), std::to_string(rank), 32 * rank);
      Put(step, name, rank, Moment::kAfterBackward, gradient, std::to_string(rank), 32 * rank);
      Put(step, name, rank, Moment::kClipped, gradient, std::to_string(rank), 32 * rank);
    }
  }
  step.norms = {{0, std::sqrt(squares)}, {1, std::sqrt(squares)}};
  EXPECT_TRUE(Judged({step}).empty());
  step.norms = {{0, std::sqrt(own)}, {1, std::sqrt(squares - own)}};
  const auto found = Judged({step});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].fault, Fault::kNormWrong);
  EXPECT_TRUE(found[0].of_own_shards);
  EXPECT_NEAR(found[0].other, std::sqrt(squares), 1e-6);
}

TEST_F(RankJudge, WhoMadeNanAndWhoGotIt) {
  runs::RankStep step = Step(3);
  Vector broken = Random(1);
  broken[4] = NAN;
  Put(step, "a.weight", 1, Moment::kDerived, broken);
  for (int64_t rank = 0; rank < 2; ++rank)
    Put(step, "a.weight", rank, Moment::kAfterBackward, broken, "0-1");
  const auto found = Judged({Step(2), step});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].fault, Fault::kNanOfRank);
  EXPECT_EQ(found[0].ranks, std::vector<int64_t>{1});
  Put(step, "a.weight", 0, Moment::kDerived, broken);
  EXPECT_TRUE(Judged({Step(2), step}).empty());  // all of them made it
}

TEST_F(RankJudge, WhoHandedNanToACollective) {
  runs::RankStep step = Step(3);
  for (int64_t rank = 0; rank < 2; ++rank) {
    runs::RankCollective call;
    call.rank = rank;
    call.operation = "all_gather";
    call.nonfinite_in = rank == 0 ? 0 : 1;
    call.nonfinite_out = 1;
    step.collectives.push_back(call);
  }
  const auto found = Judged({Step(2), step});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].ranks, std::vector<int64_t>{1});
  EXPECT_EQ(found[0].operation, "all_gather");
}

TEST_F(RankJudge, ASumThatIsSummedAgain) {
  const auto run = [&](double kept) {
    std::vector<runs::RankStep> steps;
    for (int64_t number = 0; number < 9; ++number) {
      runs::RankStep step = Step(number);
      for (int64_t rank = 0; rank < 2; ++rank) {
        runs::RankCollective call;
        call.rank = rank;
        call.operation = "all_reduce";
        call.reduction = "sum";
        call.tensor = "count";
        call.l2_out = std::pow(2, number);
        if (number > 0) call.kept = kept;
        step.collectives.push_back(call);
      }
      steps.push_back(std::move(step));
    }
    return Judged(steps);
  };
  const auto found = run(1.05);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].fault, Fault::kSummedInPlace);
  EXPECT_NEAR(found[0].value, 2, 1e-6);
  EXPECT_TRUE(run(0.5).empty());  // a fresh count of the same size each time
}

}  // namespace
}  // namespace mpnanny::ranks
