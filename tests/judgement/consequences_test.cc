// What an error reaches: the loss, numbers that the program reads, masks, data, weights and
// buffers.
#include "engines/judgement/consequences.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/judgement/judged_step.h"

namespace mpnanny::judgement {
namespace {

ReferenceError Loss1(double error, double size = 0.5) {
  ReferenceError found = Off(error);
  found.max_reference = size;
  return found;
}

Loss LossOf(JudgedStep& step, int64_t memory, const ReferenceError& found) {
  Loss row;
  row.memory = memory;
  row.slot = step.Slot(found);
  return row;
}

TEST(Consequences, ALossThatIsOffByATwentiethIsReached) {
  struct {
    ReferenceError loss;
    std::optional<double> first;
    Words reach;
  } const rows[] = {
      {Loss1(0.049), {}, {}},
      {Loss1(0.05), {}, {}},
      {Loss1(0.051), {}, {"loss 0.051"}},
      {NanInBoth(1), {}, {"loss inf"}},
      {OutOfRange(1), {}, {"loss inf"}},
      // Below a thousandth of the first ones the model has converged.
      {Loss1(0.5, 0.00199), 2.0, {}},
      {Loss1(0.5, 0.002), 2.0, {"loss 0.5"}},
      {Loss1(0.5, 0.00201), 2.0, {"loss 0.5"}},
      {NanInBoth(1), 1e6, {"loss inf"}},
  };
  for (const auto& row : rows) {
    LostChanges run;
    JudgedStep step(run, 7, row.first);
    const int origin = step.Spoil(1, Off(0.3));
    step.judge.Take(LossOf(step, 1, row.loss));
    EXPECT_EQ(step.ReachOf(origin), row.reach);
    EXPECT_EQ(step.judge.consequences().loss(), row.loss.max_reference);
    EXPECT_EQ(step.judge.consequences().IsSmallLoss(),
              row.loss.max_reference < 0.001 * row.first.value_or(0));
  }
}

TEST(Consequences, ALossThatWasNotComparedSaysNothing) {
  JudgedStep step;
  const int origin = step.Spoil(1, Off(0.3));
  Loss row;
  row.memory = 1;
  step.judge.Take(row);
  EXPECT_TRUE(step.ReachOf(origin).empty());
  EXPECT_EQ(step.judge.consequences().loss(), std::nullopt);
}

TEST(Consequences, ALossThatIsNotFollowedIsReachedByWhatIsNotFinite) {
  struct {
    double size;
    bool alone, reached;
  } const rows[] = {{kForever, true, true}, {kForever, false, false}, {2, true, false}};
  for (const auto& row : rows) {
    JudgedStep step;
    step.Spoil(1, OutOfRange(1));
    step.Spoil(2, NanInBoth(1));
    step.Spoil(3, Off(0.5));
    Loss loss;
    loss.size = row.size;
    loss.alone = row.alone;
    step.judge.Take(loss);
    const Words reach = row.reached ? Words{"loss inf"} : Words{};
    EXPECT_EQ(step.ReachOf(0), reach);
    EXPECT_EQ(step.ReachOf(1), reach);
    EXPECT_TRUE(step.ReachOf(2).empty());
    EXPECT_EQ(step.judge.consequences().loss(), row.size == 2 ? std::optional(2.0) : std::nullopt);
  }
}

TEST(Consequences, WhatAFindingReachesThoseReachWhoseErrorItWorksOn) {
  JudgedStep step;
  const int first = step.Spoil(1, Off(0.05));
  step.Makes(step.Run(step.At("aten.sub.Tensor", 12), {step.Made(1)}), 2, Off(0.5));
  step.judge.Take(LossOf(step, 2, Loss1(0.5)));
  EXPECT_EQ(step.ReachOf(1), Words{"loss 0.5"});
  EXPECT_EQ(step.ReachOf(first), Words{"loss 0.5"});
}

TEST(Consequences, ANumberThatTheProgramReadsIsReachedByAFifth) {
  for (const auto& [error, reached] :
       std::vector<std::pair<double, bool>>{{0.199, false}, {0.2, true}, {0.201, true}}) {
    JudgedStep step;
    const int origin = step.Spoil(1, Off(error));
    step.judge.Take(Read{1, "train.py:90"});
    ASSERT_EQ(step.ReachOf(origin).size(), reached ? 1u : 0u) << error;
    if (!reached) continue;
    EXPECT_EQ(step[origin].reach[0].what, Reached::kOutput);
    EXPECT_EQ(step[origin].reach[0].name, "train.py:90");
    EXPECT_EQ(step[origin].reach[0].error, error);
  }
}

TEST(Consequences, WhatAModuleGivesBackIsReachedByAnyErrorThatIsFollowed) {
  JudgedStep step;
  const int origin = step.Spoil(1, Off(0.3));
  step.judge.Take(Output{1});
  step.judge.Take(Output{99});
  EXPECT_EQ(step.ReachOf(origin), Words{"output 0.3"});
}

TEST(Consequences, AGradientThatWasComputedAgainIsReachedIfItIsNotFinite) {
  JudgedStep step;
  const int finite = step.Spoil(1, Off(0.9)), infinite = step.Spoil(2, OutOfRange(1));
  step.judge.Take(GradientAgain{"a", 1});
  step.judge.Take(GradientAgain{"b", 2});
  EXPECT_TRUE(step.ReachOf(finite).empty());
  EXPECT_EQ(step.ReachOf(infinite), Words{"gradient b inf"});
}

TEST(Consequences, AValueThatLeavesReachesAnOutputByAFifth) {
  for (const auto& [error, reached] :
       std::vector<std::pair<double, bool>>{{0.199, false}, {0.2, true}, {0.201, true}}) {
    JudgedStep step;
    const int origin = step.Spoil(1, Off(error));
    Leaves row;
    row.memory = 1;
    row.place = step.At("aten.other.default", 77);
    step.judge.Take(row);
    ASSERT_EQ(step.ReachOf(origin).size(), reached ? 1u : 0u) << error;
    if (reached) {
      EXPECT_EQ(step[origin].reach[0].what, Reached::kOutput);
      EXPECT_EQ(step[origin].reach[0].error, error);
    }
  }
  JudgedStep step;
  Leaves row;
  row.memory = 98;
  row.place = step.At("aten.other.default", 77);
  step.judge.Take(row);
  EXPECT_EQ(step.size(), 0u);
}

TEST(Consequences, DataIsReachedByAFifthThatIsFinite) {
  for (const auto& [found, reached] : std::vector<std::pair<ReferenceError, bool>>{
           {Off(0.199), false}, {Off(0.2), true}, {Off(0.201), true}, {OutOfRange(1), false}}) {
    JudgedStep step;
    const int origin = step.Spoil(1, found, Phase::kData);
    const int call = step.Run(step.At("aten.mm.default", 12), {step.Of(5, Off(0)), step.Made(1)});
    step.judge.Take(Fed{call, 0});
    EXPECT_TRUE(step.ReachOf(origin).empty());
    step.judge.Take(Fed{call, 1});
    ASSERT_EQ(step.ReachOf(origin).size(), reached ? 1u : 0u);
    if (reached) {
      EXPECT_EQ(step[origin].reach[0].what, Reached::kInput);
    }
  }
}

TEST(Consequences, AMaskIsAnotherOneWhereAQuarterOfItIsAndDecidesWhereItIsAskedFor) {
  for (const auto& [share, is_other] :
       std::vector<std::pair<double, bool>>{{0.24, false}, {0.25, true}, {0.26, true}}) {
    JudgedStep step;
    const int little = step.Spoil(1, Off(0.3)), much = step.Spoil(2, Off(0.4));
    Input written = step.Made(2);
    written.read = false;
    step.Spoil(3, Off(0.9));
    Input unread = step.Made(3);
    unread.read = false;
    const int call =
        step.Run(step.At("aten.gt.Tensor", 12), {step.Made(1), step.Made(2), unread, written});
    EXPECT_EQ(step.judge.Take(Mask{call, 5, share}), is_other) << share;
    EXPECT_TRUE(step.ReachOf(much).empty());
    step.judge.Take(Decided{4, "train.py:30"});
    EXPECT_TRUE(step.ReachOf(much).empty()) << "another mask";
    step.judge.Take(Decided{5, "train.py:31"});
    ASSERT_EQ(step.ReachOf(much).size(), is_other ? 1u : 0u);
    EXPECT_TRUE(step.ReachOf(little).empty());
    if (!is_other) continue;
    EXPECT_EQ(step[much].reach[0].what, Reached::kDecision);
    EXPECT_EQ(step[much].reach[0].name, "train.py:31");
    EXPECT_EQ(step[much].reach[0].error, share);
  }
}

TEST(Consequences, AMaskOfWhatHasNoFindingIsNobodys) {
  JudgedStep step;
  EXPECT_FALSE(step.judge.Take(
      Mask{step.Run(step.At("aten.gt.Scalar", 12), {step.Of(1, Off(0.3))}), 1, 0.9}));
  EXPECT_FALSE(step.judge.Take(Mask{step.Run(step.At("aten.ones.default", 13), {}), 2, 0.9}));
}

TEST(Consequences, WhatNanToNumReplacesIsTold) {
  for (const char* op :
       {"aten.nan_to_num.default", "aten.nan_to_num_.default", "aten.abs.default"}) {
    JudgedStep step;
    step.Spoil(1, OutOfRange(4));
    step.Spoil(2, NanInBoth(3));
    step.Spoil(3, Off(0.5));
    step.Spoil(4, OutOfRange(2));
    Input unread = step.Made(4);
    unread.read = false;
    step.Run(step.At(op, 12),
             {unread, step.Made(3), step.Of(9, Off(0)), step.Made(1), step.Made(2)});
    const bool replaces = std::string(op) != "aten.abs.default";
    EXPECT_EQ(step.ReachOf(0), replaces ? Words{"replaced train.py:12 0.04"} : Words{});
    EXPECT_EQ(step.ReachOf(1), replaces ? Words{"replaced train.py:12 0.03"} : Words{});
    EXPECT_TRUE(step.ReachOf(2).empty());
    EXPECT_TRUE(step.ReachOf(3).empty());
  }
}

// --- weights and buffers ---

TEST(Consequences, AStateThatAnOperatorMakesNotFiniteIsReached) {
  for (const auto& [found, reached] :
       std::vector<std::pair<ReferenceError, bool>>{{OutOfRange(1), true}, {Off(0.9), false}}) {
    JudgedStep step;
    Result rest;
    rest.state = "bn.running_var";
    step.Makes(step.Run(step.At("aten.add_.Tensor", 12), {}), 1, found, rest);
    EXPECT_EQ(step.ReachOf(0), reached ? Words{"state bn.running_var inf"} : Words{});
  }
}

State Buffer(JudgedStep& step, const std::string& name, int64_t memory,
             const ReferenceError& found) {
  State row;
  row.name = name;
  row.memory = memory;
  row.slot = step.Slot(found);
  return row;
}

ReferenceError Scaled(double reference, double error) {
  ReferenceError found = Off(0);
  found.squared_reference = reference * reference;
  found.squared_error = error * error;
  return found;
}

TEST(Consequences, ABufferIsReachedByAFifthBesideTheLargestOfItsModule) {
  struct {
    const char* what;
    double reference, error;  // of the buffer
    const char* beside;       // the name of another one
    double size;              // of it
    bool reached;
  } const rows[] = {
      {"below", 1, 0.199, "bn.running_var", 1, false},
      {"at", 1, 0.2, "bn.running_var", 1, false},
      {"above", 1, 0.201, "bn.running_var", 1, true},
      {"tiny beside the variance", 0.001, 0.0009, "bn.running_var", 1, false},
      {"as tiny as may be", 0.001, 0.001, "bn.running_var", 1, false},
      {"not so tiny", 0.001, 0.00101, "bn.running_var", 1, true},
      {"beside another module's", 0.001, 0.0009, "other.running_var", 1, true},
      {"beside one of no module", 0.001, 0.0009, "running_var", 1, true},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    JudgedStep step;
    const int origin = step.Spoil(1, Off(0.9));
    step.judge.Take(Buffer(step, "bn.running_mean", 1, Scaled(row.reference, row.error)));
    step.judge.Take(Buffer(step, row.beside, 50, Scaled(row.size, 0)));
    State unknown;
    unknown.memory = 1;
    step.judge.Take(unknown);
    step.judge.Finish();
    ASSERT_EQ(step.ReachOf(origin).size(), row.reached ? 1u : 0u);
    if (!row.reached) continue;
    EXPECT_EQ(step[origin].reach[0].what, Reached::kState);
    EXPECT_EQ(step[origin].reach[0].name, "bn.running_mean");
    EXPECT_NEAR(step[origin].reach[0].error, row.error / row.reference, 1e-12);
  }
}

TEST(Consequences, SizesOfBuffersAreThoseOfAnElement) {
  JudgedStep step;
  const int origin = step.Spoil(1, Off(0.9));
  ReferenceError one = Scaled(0.001, 0.0009);
  one.numel = 1;
  ReferenceError many = Scaled(1, 0);
  many.numel = 10000;
  step.judge.Take(Buffer(step, "bn.mean", 1, one));
  step.judge.Take(Buffer(step, "bn.var", 50, many));
  step.judge.Finish();
  EXPECT_EQ(step.ReachOf(origin).size(), 1u);
}

TEST(Consequences, ABufferThatIsNotFiniteIsReachedAndOfAConvergedModelNoOther) {
  LostChanges run;
  JudgedStep step(run, 7, 1.0);
  const int finite = step.Spoil(1, Off(0.9)), infinite = step.Spoil(2, OutOfRange(1));
  step.judge.Take(LossOf(step, 50, Loss1(0, 0.0001)));
  step.judge.Take(Buffer(step, "bn.mean", 1, Off(0.9)));
  step.judge.Take(Buffer(step, "bn.var", 2, OutOfRange(1)));
  step.judge.Finish();
  EXPECT_TRUE(step.ReachOf(finite).empty());
  EXPECT_EQ(step.ReachOf(infinite), Words{"state bn.var inf"});
}

// --- updates ---

Change Update(JudgedStep& step, const std::string& name, int64_t memory, double change,
              double error, double weight = 1) {
  Change row;
  row.call = step.Run(step.At("aten.add_.Tensor", 70, Phase::kOptimizer), {});
  row.made = row.call;
  row.name = name;
  row.memory = memory;
  row.slot = step.Slot(Scaled(weight, 0));
  row.found.numel = row.found.moved = 100;
  row.found.change = row.found.kept_change = change;
  row.found.squared_change = change * change;
  row.found.squared_error = error * error;
  return row;
}

TEST(Consequences, WeightsAreReachedByATenthOfAllUpdates) {
  for (const auto& [error, reached] :
       std::vector<std::pair<double, bool>>{{0.124, false}, {0.125, false}, {0.126, true}}) {
    JudgedStep step;
    const int origin = step.Spoil(1, Off(0.9));
    // Two weights whose updates have the size 1.25 together.
    step.judge.Take(Update(step, "a", 1, 0.75, error));
    step.judge.Take(Update(step, "b", 50, 1, 0.9));
    step.judge.Take(Update(step, "", 1, 1, 0.9));
    step.judge.Finish();
    ASSERT_EQ(step.ReachOf(origin).size(), reached ? 1u : 0u) << error;
    if (!reached) continue;
    EXPECT_EQ(step[origin].reach[0].what, Reached::kState);
    EXPECT_EQ(step[origin].reach[0].name, "weights");
    EXPECT_NEAR(step[origin].reach[0].error, error / 1.25, 1e-9);
  }
}

TEST(Consequences, ErrorsOfUpdatesAddUpByTheFindingTheyComeFrom) {
  JudgedStep step;
  const int first = step.Spoil(1, Off(0.9)), second = step.Spoil(2, Off(0.9));
  step.judge.Take(Update(step, "a", 1, 1, 0.09));
  step.judge.Take(Update(step, "b", 2, 0, 0.09));
  step.judge.Take(Update(step, "c", 1, 0, 0.09));
  step.judge.Finish();
  EXPECT_EQ(step.ReachOf(first).size(), 1u);
  EXPECT_TRUE(step.ReachOf(second).empty());
}

TEST(Consequences, UpdatesOfAConvergedModelAreNotReached) {
  for (const double loss : {0.0009, 0.001}) {
    LostChanges run;
    JudgedStep step(run, 7, 1.0);
    const int origin = step.Spoil(1, Off(0.9));
    step.judge.Take(LossOf(step, 50, Loss1(0, loss)));
    step.judge.Take(Update(step, "a", 1, 1, 0.9));
    step.judge.Finish();
    EXPECT_EQ(step.ReachOf(origin).size(), loss < 0.001 ? 0u : 1u);
  }
}

TEST(Consequences, UpdatesBelowTheResolutionOfWeightsAreOfAModelThatHasSettled) {
  struct {
    double change, weight;
    bool settled;
  } const rows[] = {
      {0x1p-23, 1, false}, {0.99 * 0x1p-23, 1, true}, {0, 1, false},
      {0x1p-22, 2, false}, {0.99 * 0x1p-22, 2, true},
  };
  for (const auto& row : rows) {
    JudgedStep step;
    step.judge.Take(Update(step, "a", 1, row.change, 0, row.weight));
    EXPECT_EQ(step.judge.consequences().IsSettled(), row.settled) << row.change;
  }
  JudgedStep step;
  step.judge.Take(Update(step, "", 1, 0x1p-24, 0, 1));
  EXPECT_FALSE(step.judge.consequences().IsSettled()) << "no weight";
}

}  // namespace
}  // namespace mpnanny::judgement
