// What errors reach of the gradients that an optimizer uses, or leaves out.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "tests/judgement/judged_step.h"

namespace mpnanny::judgement {
namespace {

struct OneGradient {
  std::string name;
  int64_t memory;
  ReferenceError found;
};

// An optimizer's step with these gradients; `skipped_at`: the loss scale at which it was left out.
void Optimize(JudgedStep& step, const std::vector<OneGradient>& gradients,
              std::optional<double> skipped_at = std::nullopt, bool alone = false) {
  step.judge.Take(Optimizer{skipped_at, alone});
  for (const OneGradient& each : gradients) {
    Gradient row;
    row.name = each.name;
    row.memory = each.memory;
    row.slot = step.Slot(each.found);
    step.judge.Take(row);
  }
  step.judge.Take(OptimizerEnds{});
}

// 100 numbers whose root mean square is `size`, and that of their errors `error`.
ReferenceError Sizes(double size, double error) {
  ReferenceError found = Off(0);
  found.squared_reference = 100 * size * size;
  found.squared_error = 100 * error * error;
  found.max_held = size;  // not 0, as where nothing has arrived
  return found;
}

TEST(ConsequencesGradients, ATenthOfAllGradientsIsReached) {
  for (const auto& [error, reached] :
       std::vector<std::pair<double, bool>>{{0.499, false}, {0.5, false}, {0.501, true}}) {
    JudgedStep step;
    const int origin = step.Spoil(1, Off(0.9), Phase::kBackward);
    // Of size 5 together.
    Optimize(step, {{"a", 1, Sizes(3, error)}, {"b", 50, Sizes(4, 3)}});
    ASSERT_EQ(step.ReachOf(origin).size(), reached ? 1u : 0u) << error;
    if (!reached) continue;
    EXPECT_EQ(step[origin].reach[0].what, Reached::kGradient);
    EXPECT_EQ(step[origin].reach[0].name, "");
    EXPECT_NEAR(step[origin].reach[0].error, error / 5, 1e-9);
  }
}

TEST(ConsequencesGradients, AllOfOneThatIsNotTinyBesideTheOthersIsReached) {
  struct {
    double size, error;
    bool reached;
    double scale = 1;
  } const rows[] = {
      // The mean size is 1 but for this one's part.
      {0.2, 0.199, false},     {0.25, 0.25, true},
      {0.2, 0.201, true},      {0.099, 0.099, false},
      {0.1, 0.1, true},        {0.099, 0.099, false, 1024},
      {0.1, 0.1, true, 1024},  {0.099, 0.099, false, 0.125},
      {0.1, 0.1, true, 0.125},
  };
  for (const auto& row : rows) {
    JudgedStep step;
    const int origin = step.Spoil(1, Off(0.9), Phase::kBackward);
    std::vector<OneGradient> gradients = {{"a", 1, Sizes(row.size, row.error)}};
    for (int i = 0; i < 99; ++i) gradients.push_back({"b", 50, Sizes(1, 0)});
    // The same of gradients that are as large as loss scales make them.
    for (OneGradient& each : gradients) {
      each.found.squared_reference *= row.scale * row.scale;
      each.found.squared_error *= row.scale * row.scale;
    }
    Optimize(step, gradients);
    ASSERT_EQ(step.ReachOf(origin).size(), row.reached ? 1u : 0u) << row.size << " " << row.error;
    if (row.reached) {
      EXPECT_EQ(step[origin].reach[0].name, "a");
      EXPECT_EQ(step[origin].reach[0].what, Reached::kGradient);
      EXPECT_NEAR(step[origin].reach[0].error, row.error / row.size, 1e-9);
    }
  }
}

// Tiny beside the others, and 0 everywhere: its parameter stands still. What cancels exactly does
// not come near that part of the mean size in FP64.
TEST(ConsequencesGradients, OneThatIsLostIsReachedThoughItIsTiny) {
  for (const auto& [size, held, reached] : std::vector<std::tuple<double, double, bool>>{
           {0.01, 0, true}, {0.01, 1e-30, false}, {0.001001, 0, true}, {0.00099, 0, false}}) {
    JudgedStep step;
    const int origin = step.Spoil(1, Off(0.9), Phase::kBackward);
    ReferenceError gone = Sizes(size, size);
    gone.max_held = held;
    std::vector<OneGradient> gradients = {{"a", 1, gone}};
    for (int i = 0; i < 99; ++i) gradients.push_back({"b", 50, Sizes(1, 0)});
    Optimize(step, gradients);
    EXPECT_EQ(step.ReachOf(origin), reached ? Words{"gradient a 1"} : Words{}) << size;
  }
}

TEST(ConsequencesGradients, SizesAreThoseOfAnElement) {
  JudgedStep step;
  const int origin = step.Spoil(1, Off(0.9), Phase::kBackward);
  ReferenceError few = Sizes(1, 0);
  few.numel = 10000;
  few.squared_reference = 1e4;
  ReferenceError own = Off(0);
  own.numel = 1;
  own.squared_reference = 0.04;  // a fifth of the others' size
  own.squared_error = 0.0625;
  Optimize(step, {{"a", 1, own}, {"b", 50, few}});
  EXPECT_EQ(step.ReachOf(origin), Words{"gradient a 1.25"});
}

TEST(ConsequencesGradients, ManyElementsOfOneThatAreFlushedAreReached) {
  struct {
    const char* what;
    int64_t flushed, that_matter;
    double size;
    bool reached;
  } const rows[] = {
      {"at", 30, 30, 1, false},
      {"above", 31, 31, 1, true},
      {"few that matter", 60, 30, 1, false},
      {"of a tiny one", 60, 60, 0.01, false},
  };
  for (const auto& row : rows) {
    for (const bool is_flushed : {true, false}) {
      SCOPED_TRACE(row.what);
      JudgedStep step;
      ReferenceError made = Off(0.5);
      made.flushed = is_flushed ? 50 : 0;
      made.squared_flushed = 1;
      const int origin = step.Spoil(1, made, Phase::kBackward);
      ASSERT_EQ(step[origin].kind, is_flushed ? FindingKind::kFlushed : FindingKind::kAmplified);
      ReferenceError found = Sizes(row.size, 0);
      found.flushed = row.flushed;
      found.flushed_that_matter = row.that_matter;
      Optimize(step, {{"a", 1, found}, {"b", 50, Sizes(1, 0)}});
      const bool reached = row.reached && is_flushed;
      EXPECT_EQ(step.ReachOf(origin), reached ? Words{"gradient a 0.31"} : Words{});
    }
  }
}

TEST(ConsequencesGradients, ErrorsAddUpByTheFindingTheyComeFrom) {
  JudgedStep step;
  const int first = step.Spoil(1, Off(0.9), Phase::kBackward);
  const int second = step.Spoil(2, Off(0.9), Phase::kBackward);
  Optimize(step, {{"a", 1, Sizes(1, 0.12)}, {"b", 2, Sizes(1, 0.12)}, {"c", 1, Sizes(0, 0.12)}});
  EXPECT_EQ(step.ReachOf(first), Words{"gradient 0.12"});
  EXPECT_TRUE(step.ReachOf(second).empty());
}

TEST(ConsequencesGradients, WithoutComparedGradientsNothingIsReached) {
  JudgedStep step;
  const int origin = step.Spoil(1, Off(0.9), Phase::kBackward);
  step.judge.Take(Optimizer{});
  Gradient row;
  row.memory = 1;
  step.judge.Take(row);
  step.judge.Take(OptimizerEnds{});
  EXPECT_TRUE(step.ReachOf(origin).empty());
}

TEST(ConsequencesGradients, TheGradientsOfOneOptimizerAreNotTheNextOnes) {
  JudgedStep step;
  const int origin = step.Spoil(1, Off(0.9), Phase::kBackward);
  Optimize(step, {{"a", 50, Sizes(10, 0)}});
  Optimize(step, {{"b", 1, Sizes(1, 0.5)}});
  EXPECT_EQ(step.ReachOf(origin), Words{"gradient 0.5"});
  // Nor those of one that never came to an end.
  JudgedStep other;
  const int before = other.Spoil(1, Off(0.9), Phase::kBackward);
  other.judge.Take(Optimizer{});
  Gradient row;
  row.memory = 1;
  row.slot = other.Slot(Sizes(1, 0.5));
  other.judge.Take(row);
  Optimize(other, {{"b", 50, Sizes(1, 0)}});
  EXPECT_TRUE(other.ReachOf(before).empty());
}

TEST(ConsequencesGradients, AStepThatIsLeftOutCountsBelowTheScalesThatAreSearched) {
  struct {
    std::optional<double> skipped_at;
    ReferenceError made;
    bool reached;
  } const rows[] = {
      {{}, OutOfRange(1), true},    {15.9, OutOfRange(1), true}, {16.0, OutOfRange(1), true},
      {16.1, OutOfRange(1), false}, {16.1, NanInBoth(1), true},
  };
  for (const auto& row : rows) {
    JudgedStep step;
    const int origin = step.Spoil(1, row.made, Phase::kBackward);
    Optimize(step, {{"a", 1, OutOfRange(1)}}, row.skipped_at);
    EXPECT_EQ(step.ReachOf(origin), row.reached ? Words{"gradient a inf"} : Words{});
  }
  // What is finite in a step that is left out reaches nothing.
  JudgedStep step;
  const int origin = step.Spoil(1, Off(0.9), Phase::kBackward);
  Optimize(step, {{"a", 1, Off(2)}}, 1.0);
  EXPECT_TRUE(step.ReachOf(origin).empty());
}

TEST(ConsequencesGradients, WhatNoScaleWouldCureCountsInAStepThatIsLeftOutAtAnyScale) {
  struct {
    const char* op;
    Phase phase;
    std::optional<Singular> singular;
    bool reached;
  } const rows[] = {
      {"aten.div.Tensor", Phase::kBackward, Singular{true, 0, 1e-9, "", ""}, true},
      {"aten.mul.Tensor", Phase::kBackward, Singular{false, 0, 0, "", "train.py:3"}, false},
      {"aten.exp.default", Phase::kForward, {}, true},
      {"aten.exp.default", Phase::kLoss, {}, true},
      {"aten.mul.Tensor", Phase::kLoss, {}, false},  // a loss times its scale
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(std::string(row.op) + " " + NameOf(row.phase));
    JudgedStep step;
    step.evidence.singular = row.singular;
    step.Makes(step.Run(step.At(row.op, 12, row.phase), {}), 1, OutOfRange(1));
    const int origin = step.judge.MemoryOf(1).origin;
    Optimize(step, {{"a", 1, OutOfRange(1)}}, 65536.0);
    EXPECT_EQ(step.ReachOf(origin), row.reached ? Words{"gradient a inf"} : Words{});
  }
}

TEST(ConsequencesGradients, OfAConvergedModelOnlyWhatIsNotFiniteIsReached) {
  LostChanges run;
  JudgedStep step(run, 7, 1.0);
  const int finite = step.Spoil(1, Off(0.9), Phase::kBackward);
  const int infinite = step.Spoil(2, OutOfRange(1), Phase::kBackward);
  Loss loss;
  loss.size = 0.0001;
  step.judge.Take(loss);
  Optimize(step, {{"a", 1, Off(2)}, {"b", 2, OutOfRange(1)}});
  EXPECT_TRUE(step.ReachOf(finite).empty());
  EXPECT_EQ(step.ReachOf(infinite), Words{"gradient b inf"});
}

TEST(ConsequencesGradients, WhatIsNotFiniteByItselfReachesAStepThatIsLeftOutAtASmallScale) {
  struct {
    std::optional<double> skipped_at;
    bool alone, reached;
  } const rows[] = {
      {16.0, true, true}, {16.1, true, false}, {16.0, false, false}, {{}, true, false}};
  for (const auto& row : rows) {
    JudgedStep step;
    const int origin = step.Spoil(1, OutOfRange(1), Phase::kBackward);
    Optimize(step, {}, row.skipped_at, row.alone);
    EXPECT_EQ(step.ReachOf(origin), row.reached ? Words{"gradient inf"} : Words{});
  }
}

TEST(ConsequencesGradients, AGradientThatLeftReachesWhatTheOptimizerUses) {
  struct {
    const char* what;
    Phase made, left;
    ReferenceError found;
    std::optional<double> skipped_at;
    double loss;
    Words reach;
  } const rows[] = {
      {"backward", Phase::kBackward, Phase::kBackward, Off(0.3), {}, 1, {"gradient 0.3"}},
      {"less than a fifth", Phase::kBackward, Phase::kBackward, Off(0.19), {}, 1, {}},
      {"into another phase", Phase::kBackward, Phase::kOptimizer, Off(0.3), {}, 1, {}},
      {"left out", Phase::kBackward, Phase::kBackward, Off(0.3), 4.0, 1, {}},
      {"converged", Phase::kBackward, Phase::kBackward, Off(0.3), {}, 1e-4, {}},
      {"not finite", Phase::kBackward, Phase::kBackward, OutOfRange(1), {}, 1e-4, {"gradient inf"}},
      {"not finite, left out",
       Phase::kBackward,
       Phase::kBackward,
       OutOfRange(1),
       4.0,
       1,
       {"gradient inf"}},
      {"searched", Phase::kBackward, Phase::kBackward, OutOfRange(1), 32.0, 1, {}},
      {"forward", Phase::kForward, Phase::kBackward, Off(0.3), {}, 1, {"output 0.3"}},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    LostChanges run;
    JudgedStep step(run, 7, 1.0);
    const int origin = step.Spoil(1, row.found, row.made);
    Loss loss;
    loss.size = row.loss;
    step.judge.Take(loss);
    Leaves leaves;
    leaves.memory = 1;
    leaves.place = step.At("aten.other.default", 77, row.left);
    step.judge.Take(leaves);
    if (row.made == Phase::kBackward) {
      EXPECT_TRUE(step.ReachOf(origin).empty()) << "not before it is used";
    }
    Optimize(step, {}, row.skipped_at);
    EXPECT_EQ(step.ReachOf(origin), row.reach);
  }
}

TEST(ConsequencesGradients, AGradientThatLeftReachesTheNextOptimizerOnly) {
  JudgedStep step;
  const int origin = step.Spoil(1, OutOfRange(1), Phase::kBackward);
  Leaves leaves;
  leaves.memory = 1;
  leaves.place = step.At("aten.other.default", 77, Phase::kBackward);
  step.judge.Take(leaves);
  Optimize(step, {}, 32.0);
  Optimize(step, {});
  EXPECT_TRUE(step.ReachOf(origin).empty());
}

}  // namespace
}  // namespace mpnanny::judgement
