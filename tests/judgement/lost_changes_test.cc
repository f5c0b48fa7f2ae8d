// Changes that get lost, over the shadow steps of a run.
#include "engines/judgement/lost_changes.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/judgement/judged_step.h"

namespace mpnanny::judgement {
namespace {

// What a line changes of a tensor: by how much, how much of that stayed, how much was kept.
struct Changed {
  double change = 1, lost = 1, kept = 0;
  std::string name = "fc.weight";
  Element type = Element::kBFloat16;
  int line = 12;
  Phase phase = Phase::kOptimizer;
  int64_t memory = 1;
  int seen = 0;
  bool in_parts = false;
  int index = 0;
};

void Take(JudgedStep& step, const Changed& each) {
  Change row;
  row.call = step.Run(step.At("aten.add_.Tensor", each.line, each.phase), {});
  row.made = row.call;
  row.index = each.index;
  row.memory = each.memory;
  row.type = each.type;
  row.shape = {10, 10};
  row.name = each.name;
  row.seen = each.seen;
  row.in_parts = each.in_parts;
  row.found.numel = row.found.moved = 100;
  row.found.change = each.change;
  row.found.lost_change = each.lost;
  row.found.kept_change = each.kept;
  step.judge.Take(row);
}

LostLine Measured(int seen, const std::string& name, bool excused = false) {
  LostLine row;
  row.seen = seen;
  row.name = name;
  row.excused = excused;
  row.magnitude = 3;
  row.mean = 0.5;
  row.held_sum = 1e9;
  return row;
}

// Steps of a run, each written by `rows`; the findings of the last one.
struct Training {
  LostChanges run;
  int steps = 0;

  std::deque<Finding> Step(const std::vector<Changed>& rows,
                           const std::function<void(JudgedStep&)>& more = nullptr) {
    JudgedStep step(run, 10 * ++steps, std::nullopt);
    for (const Changed& each : rows) Take(step, each);
    if (more) more(step);
    step.judge.Finish();
    return step.judge.findings().all();
  }
};

TEST(LostChanges, MoreThanHalfThatStayedIsLostAndNotMadeUpForElsewhere) {
  struct {
    double change, lost, kept;
    bool is_lost;
  } const rows[] = {
      {1, 0.49, 0, false},  {1, 0.5, 0, false},    {1, 0.51, 0, true},    {1, 0.6, 0.49, true},
      {1, 0.6, 0.5, false}, {1, 0.6, 0.51, false}, {2, 1.01, 0.99, true}, {0, 0, 0, false},
  };
  for (const auto& row : rows) {
    JudgedStep step;
    Changed changed;
    changed.change = row.change;
    changed.lost = row.lost;
    changed.kept = row.kept;
    changed.seen = 4;
    Take(step, changed);
    const auto lost = step.judge.changes().Lost();
    ASSERT_EQ(lost.size(), row.is_lost ? 1u : 0u) << row.lost << " " << row.kept;
    if (row.is_lost) {
      EXPECT_EQ(lost[0], std::pair(4, std::string("fc.weight")));
    }
  }
}

TEST(LostChanges, ItIsToldWhenItWasLostInThreeShadowStepsRunning) {
  Training run;
  EXPECT_TRUE(run.Step({{}}).empty());
  EXPECT_TRUE(run.Step({{}}).empty());
  const auto found = run.Step({{.change = 4, .lost = 3}},
                              [](JudgedStep& step) { step.judge.Take(Measured(0, "fc.weight")); });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, FindingKind::kLostChange);
  EXPECT_EQ(found[0].place, 0);
  EXPECT_EQ(found[0].number, 1) << "after all calls";
  EXPECT_EQ(found[0].dtype, "bfloat16");
  EXPECT_EQ(found[0].shape, (std::vector<int64_t>{10, 10}));
  EXPECT_EQ(found[0].share, 0.75);
  EXPECT_EQ(found[0].error_out, 0.75);
  EXPECT_EQ(found[0].magnitude, 3);
  EXPECT_EQ(found[0].precision, Proof::kProven);
  ASSERT_TRUE(found[0].lost);
  EXPECT_EQ(found[0].lost->steps, 3);
  EXPECT_EQ(found[0].lost->lost_in, 3);
  EXPECT_EQ(found[0].lost->since, 10);
  EXPECT_EQ(found[0].lost->half_ulp, 0x1p-8);
  EXPECT_EQ(found[0].lost->relative_change, 0.08) << "0.04 an element, beside 0.5";
  EXPECT_FALSE(found[0].lost->lost_before);
  ASSERT_EQ(found[0].reach.size(), 1u);
  EXPECT_EQ(found[0].reach[0].what, Reached::kState);
  EXPECT_EQ(found[0].reach[0].name, "fc.weight");
  EXPECT_EQ(found[0].reach[0].error, 0.75);
  EXPECT_EQ(run.run.CourseOf("aten.add_.Tensor|train.py:12|optimizer|fc.weight").share, 1);
}

TEST(LostChanges, AStepThatChangesItBeginsTheCountAnew) {
  Training run;
  run.Step({{}});
  run.Step({{}});
  EXPECT_TRUE(run.Step({{.lost = 0.1}}).empty());
  EXPECT_TRUE(run.Step({{}}).empty());
  EXPECT_TRUE(run.Step({{}}).empty());
  const auto found = run.Step({{}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].lost->steps, 6);
  EXPECT_EQ(found[0].lost->lost_in, 3);
  EXPECT_EQ(found[0].lost->since, 40);
}

TEST(LostChanges, OtherLinesAndTensorsAreOtherCourses) {
  Training run;
  run.Step({{}});
  run.Step({{}});
  EXPECT_TRUE(run.Step({{.line = 13}}).empty());
  EXPECT_TRUE(run.Step({{.name = "other"}}).empty());
  EXPECT_EQ(run.Step({{}}).size(), 1u) << "steps without this line do not count";
}

TEST(LostChanges, TensorsWithoutANameAreKnownByTheirIndex) {
  Training run;
  for (int i = 0; i < 2; ++i) run.Step({{.name = "", .index = 0}});
  EXPECT_TRUE(run.Step({{.name = "", .index = 1}}).empty());
  EXPECT_EQ(run.Step({{.name = "", .index = 0}}).size(), 1u);
  EXPECT_TRUE(run.run.kept().empty());
}

TEST(LostChanges, InWideTypesOnlyWhatIsLostInHalfOfTheSteps) {
  for (const Element type : {Element::kFloat32, Element::kFloat64, Element::kFloat16}) {
    Training run;
    for (int i = 0; i < 4; ++i) run.Step({{.lost = 0, .type = type}});
    run.Step({{.type = type}});
    run.Step({{.type = type}});
    // 3 of 7, then 4 of 8.
    EXPECT_EQ(run.Step({{.type = type}}).size(), type == Element::kFloat16 ? 1u : 0u);
    EXPECT_EQ(run.Step({{.type = type}}).size(), 1u);
  }
}

TEST(LostChanges, WhatIsExcusedIsNotLostAndTheWeightIsKept) {
  Training run;
  const auto excuse = [](JudgedStep& step) { step.judge.Take(Measured(0, "fc.weight", true)); };
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(run.Step({{}}, excuse).empty());
  EXPECT_EQ(run.run.kept(), std::set<std::string>{"fc.weight"});
  run.Step({{}});
  EXPECT_TRUE(run.run.kept().empty()) << "now it is lost";
  run.Step({{}}, excuse);
  run.Step({{}});
  EXPECT_TRUE(run.Step({{}}).empty());
  EXPECT_EQ(run.Step({{}}).size(), 1u);
}

TEST(LostChanges, AWeightThatStaysAndMovesAtRandomIsKept) {
  Training run;
  // Most stays, and the sum of what moved is right.
  run.Step(
      {{.lost = 0.9, .kept = 1, .name = "rounded"}, {.lost = 0.4, .name = "moves", .memory = 2}},
      [](JudgedStep& step) { step.judge.Take(KeptAtRandom{"by_bits"}); });
  EXPECT_EQ(run.run.kept(), (std::set<std::string>{"by_bits", "rounded"}));
}

TEST(LostChanges, AMeasuredLineIsThatOfItsNumberOrOfItsName) {
  Training run;
  const std::vector<Changed> rows = {{.name = "a", .seen = 0},
                                     {.name = "b", .line = 13, .memory = 2, .seen = 1}};
  std::deque<Finding> found;
  for (int i = 0; i < 3; ++i) {
    found = run.Step(rows, [](JudgedStep& step) { step.judge.Take(Measured(1, "a", true)); });
  }
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].reach[0].name, "a") << "number 1 is b, whatever the row calls it";
}

TEST(LostChanges, OfALineAndTensorAllChangesOfTheStepAddUp) {
  Training run;
  std::deque<Finding> found;
  for (int i = 0; i < 3; ++i) {
    found = run.Step({{.change = 1, .lost = 1}, {.change = 3, .lost = 1.5, .kept = 1.5}});
  }
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].share, 2.5 / 4);
  for (int i = 0; i < 3; ++i) {
    found = run.Step({{.change = 1, .lost = 1}, {.change = 3, .lost = 1, .kept = 2}});
  }
  EXPECT_TRUE(found.empty());
}

TEST(LostChanges, WhatIsNextToNothingOfAllThatChangesTheTensorIsNotLookedAt) {
  for (const auto& [change, told] :
       std::vector<std::pair<double, bool>>{{0.00099, false}, {0.00101, true}}) {
    Training run;
    std::deque<Finding> found;
    for (int i = 0; i < 3; ++i) {
      found = run.Step({{.change = change, .lost = change}, {.change = 1, .lost = 0, .line = 13}});
    }
    EXPECT_EQ(found.size(), told ? 1u : 0u) << change;
    // Beside another tensor's it is.
    for (int i = 0; i < 3; ++i) {
      found = run.Step({{.change = change, .lost = change, .name = "x"},
                        {.change = 1, .lost = 0, .name = "y", .line = 13, .memory = 2}});
    }
    EXPECT_EQ(found.size(), 1u);
  }
}

TEST(LostChanges, TensorsOfALineAreOneFinding) {
  Training run;
  std::deque<Finding> found;
  for (int i = 0; i < 3; ++i) {
    found = run.Step({{.name = "a"},
                      {.lost = 0.8, .name = "b", .memory = 2},
                      {.name = "c", .line = 13, .memory = 3}});
  }
  ASSERT_EQ(found.size(), 2u);
  ASSERT_EQ(found[0].reach.size(), 2u);
  EXPECT_EQ(found[0].reach[0].name, "a");
  EXPECT_EQ(found[0].reach[1].name, "b");
  EXPECT_EQ(found[0].reach[1].error, 0.8);
  EXPECT_EQ(found[1].reach[0].name, "c");
}

TEST(LostChanges, MoreThanRoundingHereCanLoseWasLostBefore) {
  struct {
    Phase phase;
    Element type;
    double held;  // the sum of the held magnitudes: half an ulp of it, four times, can get lost
    bool before;
  } const rows[] = {
      {Phase::kOptimizer, Element::kBFloat16, 63, true},
      {Phase::kOptimizer, Element::kBFloat16, 64, false},
      {Phase::kOptimizer, Element::kBFloat16, 65, false},
      {Phase::kOptimizer, Element::kFloat16, 511, true},
      {Phase::kOptimizer, Element::kFloat16, 512, false},
      {Phase::kForward, Element::kBFloat16, 0, false},
      {Phase::kOptimizer, Element::kInt64, 0, false},
  };
  for (const auto& row : rows) {
    Training run;
    std::deque<Finding> found;
    for (int i = 0; i < 6; ++i) {
      found = run.Step({{.type = row.type, .phase = row.phase}}, [&](JudgedStep& step) {
        LostLine measured = Measured(0, "fc.weight");
        measured.held_sum = row.held;
        step.judge.Take(measured);
      });
    }
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].lost->lost_before, row.before) << row.held;
  }
}

// --- several lines ---

TEST(LostChanges, WeightsThatSeveralLinesWriteAsAWholeAreLookedAtTogether) {
  const auto lines = [](const std::vector<Changed>& rows) {
    JudgedStep step;
    for (const Changed& each : rows) Take(step, each);
    return step.judge.changes().SeveralLines();
  };
  const Changed first{.lost = 0}, second{.lost = 0, .line = 13};
  EXPECT_EQ(lines({first, second}), Words{"fc.weight"});
  EXPECT_EQ(lines({first}), Words{});
  EXPECT_EQ(lines({first, first}), Words{}) << "one line twice";
  Changed part = second;
  part.in_parts = true;
  EXPECT_EQ(lines({first, part}), Words{}) << "parts of it";
  EXPECT_EQ(lines({part, first}), Words{});
  EXPECT_EQ(lines({first, {.line = 13}}), Words{}) << "one has lost its own";
  Changed unnamed = second;
  unnamed.name = "";
  EXPECT_EQ(lines({unnamed, {.lost = 0, .name = ""}}), Words{});
  EXPECT_EQ(lines({first, second, {.name = "b", .line = 14, .memory = 2}}), Words{"fc.weight"});
}

TEST(LostChanges, WhatTheyComeToTogetherIsALineOfItsOwn) {
  struct {
    double lost, kept;
    int64_t moved;
    bool told;
  } const rows[] = {
      {1.8, 0, 50, true}, {1, 0, 50, false}, {1.8, 1.8, 50, false}, {1.8, 0, 0, false}};
  for (const auto& row : rows) {
    Training run;
    std::deque<Finding> found;
    std::vector<std::pair<int, std::string>> lost;
    for (int i = 0; i < 3; ++i) {
      found = run.Step({{.lost = 0}, {.lost = 0, .type = Element::kFloat16, .line = 13}},
                       [&](JudgedStep& step) {
                         Together together;
                         together.name = "fc.weight";
                         together.found.numel = 50;
                         together.found.moved = row.moved;
                         together.found.change = 2;
                         together.found.lost_change = row.lost;
                         together.found.kept_change = row.kept;
                         step.judge.Take(together);
                         together.name = "unknown";
                         step.judge.Take(together);
                         lost = step.judge.changes().Lost();
                         step.judge.Take(Measured(kNone, "other", true));
                         step.judge.Take(Measured(kNone, "fc.weight"));
                       });
    }
    ASSERT_EQ(found.size(), row.told ? 1u : 0u) << row.lost;
    if (!row.told) continue;
    EXPECT_EQ(lost, (std::vector<std::pair<int, std::string>>{{kNone, "fc.weight"}}));
    EXPECT_EQ(found[0].place, 1) << "the newest of the lines";
    EXPECT_EQ(found[0].dtype, "float16");
    EXPECT_EQ(found[0].share, 0.9);
    EXPECT_EQ(found[0].magnitude, 3);
    EXPECT_EQ(found[0].lost->relative_change, 0.08);
  }
}

TEST(LostChanges, WithoutFiguresOfItsSizeAChangeIsStillTold) {
  Training run;
  std::deque<Finding> found;
  for (int i = 0; i < 3; ++i) found = run.Step({{}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_GT(found[0].lost->relative_change, 1e100);
}

}  // namespace
}  // namespace mpnanny::judgement
