// A step as a whole: what the judge keeps of it, and what goes on to the next one.
#include "engines/judgement/judge.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/judgement/judged_step.h"

namespace mpnanny::judgement {
namespace {

TEST(Judge, MagnitudesAreTheLargestOfEachPlace) {
  JudgedStep step;
  const int place = step.At("aten.mul.Tensor", 12), same = step.At("aten.mul.Tensor", 12);
  const int other = step.At("aten.mul.Tensor", 13);
  for (const auto& [at, magnitude] :
       std::vector<std::pair<int, double>>{{place, 2}, {same, 3}, {place, 1}, {other, 5}}) {
    ReferenceError found = Off(0);
    found.max_reference = magnitude;
    step.Makes(step.Run(at, {}), 1, found);
  }
  EXPECT_EQ(step.judge.magnitudes(), (std::map<int, double>{{place, 3}, {other, 5}}));
}

TEST(Judge, MemoryMayComeInWithAnError) {
  JudgedStep step;
  step.judge.Take(Enters{1, 0.3});
  EXPECT_EQ(step.judge.MemoryOf(1).error, 0.3);
  EXPECT_EQ(step.judge.MemoryOf(1).producer, kNone);
}

TEST(Judge, TheSourceOfAnErrorIsItsFindingOrTheCallInWhichItCameIn) {
  JudgedStep step;
  step.Makes(step.Run(step.At("aten._to_copy.default", 5), {}), 1, Off(0.01));
  step.Makes(step.Run(step.At("aten.mul.Tensor", 6), {step.Made(1)}), 2, Off(0.011));
  const auto small = step.judge.SourceOf(2, Element::kFloat32);
  ASSERT_TRUE(small);
  EXPECT_EQ(step.judge.calls().PlaceOf(small->came_in.place).line, 5);
  EXPECT_FALSE(small->is_finding || small->cure);

  // More than half of its error is made by the call itself.
  step.Makes(step.Run(step.At("aten.exp.default", 7), {step.Made(1)}), 3, Off(0.03));
  EXPECT_EQ(
      step.judge.calls().PlaceOf(step.judge.SourceOf(3, Element::kFloat32)->came_in.place).line, 7);

  step.evidence.cure = Cure{{"train.py:8"}, {"aten.sub.Tensor"}, "float32", 0.9, 1e-8};
  step.Makes(step.Run(step.At("aten.sub.Tensor", 8), {step.Made(2)}), 4, Off(0.9));
  step.Makes(step.Run(step.At("aten.mul.Tensor", 9), {step.Made(4)}), 5, Off(0.9));
  const auto large = step.judge.SourceOf(5, Element::kFloat32);
  ASSERT_TRUE(large && large->cure);
  EXPECT_EQ(step.judge.calls().PlaceOf(large->came_in.place).line, 8);
  EXPECT_TRUE(large->is_finding);
  EXPECT_EQ(large->cure->lines.front(), "train.py:8");

  EXPECT_FALSE(step.judge.SourceOf(99, Element::kFloat32));
}

TEST(Judge, WhatRoundsWeightsBetweenStepsIsRememberedForTheRun) {
  struct {
    const char* state;
    Phase phase;
    double error;
    bool remembered;
  } const rows[] = {
      {"fc.weight", Phase::kState, 0.01, true},
      {"fc.weight", Phase::kOptimizer, 0.01, false},
      {"", Phase::kState, 0.01, false},
      {"fc.weight", Phase::kState, 0, false},
  };
  for (const auto& row : rows) {
    LostChanges run;
    JudgedStep step(run, 7, std::nullopt);
    step.Makes(step.Run(step.At("aten._to_copy.default", 5), {}), 1, Off(row.error));
    Result rest;
    rest.state = row.state;
    step.Makes(step.Run(step.At("aten.copy_.default", 6, row.phase), {step.Made(1)}), 2,
               Off(row.error), rest);
    ASSERT_EQ(run.rounds_weights().has_value(), row.remembered);
    if (row.remembered) {
      EXPECT_EQ(run.rounds_weights()->place.line, 5);
      EXPECT_EQ(run.rounds_weights()->came_in.error, row.error);
    }
  }
}

// Three steps in which a weight stays where it is, with this loss; the findings of the last one.
std::vector<int> Stays(double loss, LostChanges& run, std::vector<int>* numbers) {
  std::vector<int> counted;
  for (int i = 0; i < 3; ++i) {
    JudgedStep step(run, i, 1.0);
    Loss row;
    row.size = loss;
    step.judge.Take(row);
    const int place = step.At("aten.add_.Tensor", 12, Phase::kOptimizer);
    for (int call = 0; call < 2; ++call) step.Run(place, {});
    Change change;
    change.call = 0;
    change.name = "fc.weight";
    change.memory = 1;
    change.type = Element::kBFloat16;
    change.found.numel = change.found.moved = 10;
    change.found.change = change.found.lost_change = 1;
    step.judge.Take(change);
    counted = step.judge.Finish();
    numbers->clear();
    for (const Finding& each : step.judge.findings().all()) numbers->push_back(each.number);
  }
  return counted;
}

TEST(Judge, LostChangesAreFindingsOfTheStepAfterAllOthers) {
  LostChanges run;
  std::vector<int> numbers;
  EXPECT_EQ(Stays(0.5, run, &numbers), std::vector<int>{0});
  EXPECT_EQ(numbers, std::vector<int>{2}) << "after calls 0 and 1";
}

TEST(Judge, LostChangesOfAConvergedModelAreNone) {
  LostChanges run;
  std::vector<int> numbers;
  EXPECT_TRUE(Stays(0.0005, run, &numbers).empty());
  EXPECT_TRUE(numbers.empty());
}

TEST(Judge, OfASettledModelWhatIsWrongIsANote) {
  for (const double change : {0x1p-24, 0x1p-22}) {
    JudgedStep step;
    step.Spoil(1, Off(0.5));
    step.judge.Take(Output{1});
    Change row;
    row.call = step.Run(step.At("aten.add_.Tensor", 12, Phase::kOptimizer), {});
    row.name = "fc.weight";
    row.slot = step.Slot(Off(0));
    row.found.squared_change = change * change;
    step.judge.Take(row);
    EXPECT_EQ(step.judge.Finish(), std::vector<int>{0});
    EXPECT_EQ(step[0].severity, change < 0x1p-23 ? Severity::kInfo : Severity::kWarning);
  }
}

}  // namespace
}  // namespace mpnanny::judgement
