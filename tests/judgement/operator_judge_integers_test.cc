// Whole numbers that became others, and places that were found among numbers.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/judgement/judged_step.h"

namespace mpnanny::judgement {
namespace {

using Cures = std::vector<ScriptedEvidence::AskedCure>;

// 1000 whole numbers, of which so many are others.
ReferenceError Whole(int64_t wrong, double largest = 4000) {
  ReferenceError found = Off(wrong > 0 ? 0.001 : 0);
  found.numel = found.nonzero = 1000;
  found.integers = true;
  found.wrong_integers = wrong;
  found.max_reference = largest;
  return found;
}
ReferenceError Fractions() { return Off(0); }

TEST(OperatorJudgeIntegers, OneOfAHundredThatIsAnotherIsWrong) {
  struct {
    const char* what;
    ReferenceError in, out;
    bool is_wrong;
  } const rows[] = {
      {"none", Whole(0), Whole(0), false},
      {"below", Whole(0), Whole(9), false},
      {"at", Whole(0), Whole(10), true},
      {"above", Whole(0), Whole(11), true},
      {"FP64 holds it", Whole(0), Whole(10, 0x1p53 - 1), true},
      {"FP64 does not", Whole(0), Whole(10, 0x1p53), false},
      {"they were others before", Whole(1), Whole(10), false},
      {"they were no whole numbers", Fractions(), Whole(10), false},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    JudgedStep step;
    step.Makes(step.Run(step.At("aten._to_copy.default", 12), {step.Of(1, row.in)}), 2, row.out);
    ASSERT_EQ(step.size(), row.is_wrong ? 1u : 0u);
    EXPECT_EQ(step.judge.MemoryOf(2).origin, row.is_wrong ? 0 : kNone);
    if (!row.is_wrong) continue;
    EXPECT_EQ(step[0].kind, FindingKind::kIntegers);
    EXPECT_EQ(step[0].share, row.out.wrong_integers / 1000.0);
    EXPECT_EQ(step[0].error_in, 0);
    EXPECT_EQ(step[0].error_out, 0.001);
    EXPECT_EQ(step.evidence.cures_asked, (Cures{{FindingKind::kIntegers, step[0].share, false}}));
  }
}

TEST(OperatorJudgeIntegers, ManyThatAreOthersAmongFractionsAreNoWholeNumbers) {
  JudgedStep step;
  ReferenceError out = Whole(500);
  out.integers = false;
  step.Makes(step.Run(step.At("aten._to_copy.default", 12), {step.Of(1, Whole(0))}), 2, out);
  EXPECT_EQ(step.size(), 0u);
}

TEST(OperatorJudgeIntegers, WhatCameInWithoutFiguresIsNotToBlame) {
  JudgedStep step;
  Input unknown;
  unknown.memory = 1;
  step.Makes(step.Run(step.At("aten._to_copy.default", 12), {step.Of(3, Whole(0)), unknown}), 2,
             Whole(500));
  EXPECT_EQ(step.size(), 0u);
}

// Memory with ids of which so many of 1000 are others.
int SpoilIds(JudgedStep& step, int64_t memory, int64_t wrong) {
  const int place = step.At("aten._to_copy.default", 200 + static_cast<int>(memory));
  step.Makes(step.Run(place, {step.Of(90, Whole(0))}), memory, Whole(wrong));
  return step.judge.MemoryOf(memory).origin;
}

TEST(OperatorJudgeIntegers, AnIdThatIsOffByOneIsASmallErrorThatGoesOn) {
  JudgedStep step;
  step.Spoil(8, Off(0.3));
  const int ids = SpoilIds(step, 1, 10);
  step.Makes(step.Run(step.At("aten.mul.Tensor", 12), {step.Made(1)}), 2, Off(1e-6));
  EXPECT_EQ(step.judge.MemoryOf(2).origin, ids);
  step.Makes(step.Run(step.At("aten.mul.Tensor", 13), {step.Made(1)}), 3, Off(0));
  EXPECT_EQ(step.judge.MemoryOf(3).origin, kNone) << "no error any more";
  // More whole numbers made of it are no second finding.
  step.Makes(step.Run(step.At("aten.mul.Tensor", 14), {step.Made(1)}), 4, Whole(900));
  EXPECT_EQ(step.judge.MemoryOf(4).origin, ids);
  EXPECT_EQ(step.size(), 2u);
  // A small error of another kind does not go on.
  JudgedStep other;
  other.Spoil(1, Off(0.3));
  other.Makes(other.Run(other.At("aten.mul.Tensor", 12), {other.Made(1)}), 2, Off(1e-6));
  EXPECT_EQ(other.judge.MemoryOf(2).origin, kNone);
  other.Makes(other.Run(other.At("aten.floor.default", 13), {other.Made(1)}), 3, Whole(10));
  EXPECT_EQ(other.judge.MemoryOf(3).origin, kNone);
}

TEST(OperatorJudgeIntegers, OfWholeNumbersTheOnesMostOfWhichAreOthersGoOn) {
  for (const bool most_first : {true, false}) {
    JudgedStep step;
    const int few = SpoilIds(step, 1, 10), most = SpoilIds(step, 2, 500);
    std::vector<Input> inputs = {step.Made(1), step.Made(2)};
    if (most_first) std::swap(inputs[0], inputs[1]);
    step.Makes(step.Run(step.At("aten.add.Tensor", 12), inputs), 3, Off(0.01));
    EXPECT_EQ(step.judge.MemoryOf(3).origin, most);
    EXPECT_NE(few, most);
  }
  // An error of another kind that is larger is what goes on.
  JudgedStep step;
  SpoilIds(step, 1, 10);
  const int larger = step.Spoil(2, Off(0.3));
  step.Makes(step.Run(step.At("aten.add.Tensor", 12), {step.Made(1), step.Made(2)}), 3, Off(0.1));
  EXPECT_EQ(step.judge.MemoryOf(3).origin, larger);
}

// --- places ---

Indices Places(int call, double share) {
  Indices row;
  row.call = call;
  row.share = share;
  row.shape = {8};
  return row;
}

TEST(OperatorJudgeIntegers, PlacesFoundAmongNumbersAreWrongWhereAQuarterAreOthers) {
  for (const double share : {0.24, 0.25, 0.26}) {
    JudgedStep step;
    step.Makes(step.Run(step.At("aten.mul.Tensor", 5), {}), 1, Off(0.01));
    const int call =
        step.Run(step.At("aten.searchsorted.Tensor", 12), {step.Of(9, Off(0)), step.Made(1)});
    step.evidence.index_slot = step.Slot(Whole(240));
    step.judge.Take(Places(call, share), step.evidence);
    ASSERT_EQ(step.size(), share >= 0.25 ? 1u : 0u) << share;
    if (step.size() == 0) continue;
    const Finding& found = step[0];
    EXPECT_EQ(found.kind, FindingKind::kIntegers);
    EXPECT_EQ(found.share, share);
    EXPECT_EQ(found.error_in, 0);
    EXPECT_EQ(found.error_out, share);
    EXPECT_EQ(found.magnitude, 4000);
    EXPECT_EQ(found.dtype, "float16 → int64");
    EXPECT_EQ(found.shape, (std::vector<int64_t>{8}));
    ASSERT_TRUE(found.came_in);
    EXPECT_EQ(found.came_in->place, 0);
    EXPECT_EQ(found.came_in->error, 0.01);
    EXPECT_EQ(step.evidence.cures_asked, (Cures{{FindingKind::kIntegers, share, true}}));
    ASSERT_EQ(found.reach.size(), 1u);
    EXPECT_EQ(found.reach[0].what, Reached::kIndex);
    EXPECT_EQ(found.reach[0].name, "train.py:12");
    EXPECT_EQ(found.reach[0].error, share);
  }
}

TEST(OperatorJudgeIntegers, PlacesThatCannotBeComparedAreNoFinding) {
  JudgedStep step;
  const int call = step.Run(step.At("aten.searchsorted.Tensor", 12), {step.Of(9, Off(0))});
  step.judge.Take(Places(call, 0.5), step.evidence);
  EXPECT_EQ(step.size(), 0u);
  // Nor those of an operator without numbers.
  step.evidence.index_slot = step.Slot(Whole(240));
  step.judge.Take(Places(step.Run(step.At("aten.arange.default", 13), {}), 0.5), step.evidence);
  EXPECT_EQ(step.size(), 0u);
}

TEST(OperatorJudgeIntegers, AnErrorReachesTheIndexWhereOneOfAHundredIsAnother) {
  for (const char* op : {"aten.searchsorted.Tensor", "aten._to_copy.default"}) {
    for (const double share : {0.0099, 0.01, 0.011}) {
      JudgedStep step;
      const int little = step.Spoil(2, Off(0.3)), much = step.Spoil(1, Off(0.5));
      ASSERT_NE(little, much);
      const int call = step.Run(step.At(op, 12), {step.Made(2), step.Made(1)});
      step.judge.Take(Places(call, share), step.evidence);
      EXPECT_EQ(step.ReachOf(much).size(), share < 0.01 ? 0u : 1u) << op << share;
      EXPECT_TRUE(step.ReachOf(little).empty());
    }
  }
}

TEST(OperatorJudgeIntegers, WrongPlacesOfAnErrorBeforeThemHaveItForAParent) {
  JudgedStep step;
  const int before = step.Spoil(1, Off(0.5));
  const int call = step.Run(step.At("aten.searchsorted.Tensor", 12), {step.Made(1)});
  step.evidence.index_slot = step.Slot(Whole(240));
  step.judge.Take(Places(call, 0.5), step.evidence);
  ASSERT_EQ(step.size(), 2u);
  EXPECT_EQ(step[1].parent, before);
  EXPECT_FALSE(step[1].came_in);
  EXPECT_EQ(step.ReachOf(before), Words{"index train.py:12 0.5"});
  EXPECT_EQ(step.ReachOf(1), Words{"index train.py:12 0.5"});
}

TEST(OperatorJudgeIntegers, LabelsThatLieAmongFractionsAreBlamedOnWhatRoundedThem) {
  ReferenceError fractions = Fractions(), reference_only = Whole(5), nan = Whole(5);
  ReferenceError both = Whole(5);
  both.undefined = both.reference_only = 1;
  reference_only.reference_only = 1;
  nan.undefined = 1;
  struct {
    const char* what;
    ReferenceError labels;
    bool has_figures, is_wrong;
  } const rows[] = {
      {"whole", Whole(5), true, true},
      {"fractions", fractions, true, false},
      {"both", both, true, false},
      {"NaN among them", nan, true, false},
      {"not finite", reference_only, true, false},
      {"not comparable", Whole(5), false, false},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    JudgedStep step;
    const int source =
        step.Run(step.At("aten._to_copy.default", 5), {step.Of(9, Off(0), Element::kFloat32)});
    Result made;
    made.call = source;
    made.memory = 1;
    step.judge.Take(made, step.evidence);
    if (row.has_figures) step.evidence.index_slot = step.Slot(Whole(500));
    const int call = step.Run(step.At("aten._to_copy.default", 12), {step.Of(1, row.labels)});
    const Indices places = Places(call, 0.5);
    step.judge.Take(places, step.evidence);
    ASSERT_EQ(step.size(), row.is_wrong ? 1u : 0u);
    if (!row.is_wrong) continue;
    EXPECT_EQ(step[0].kind, FindingKind::kIntegers);
    EXPECT_EQ(step[0].place, 0) << "of the operator that rounded them";
    EXPECT_EQ(step[0].number, source);
    EXPECT_EQ(step[0].dtype, "float32 → float16");
    EXPECT_EQ(step[0].share, 0.5);
    EXPECT_EQ(step[0].error_in, 0);
    EXPECT_EQ(step[0].error_out, 0.5);
    EXPECT_EQ(step.evidence.cures_asked.size(), 1u);
    EXPECT_EQ(step.ReachOf(0), Words{"index train.py:12 0.5"});
    step.judge.Take(places, step.evidence);
    EXPECT_EQ(step[0].count, 2);
    EXPECT_EQ(step[0].place, 0);
  }
  // What was there before the step nobody rounded in it.
  JudgedStep step;
  step.evidence.index_slot = step.Slot(Whole(500));
  const int call = step.Run(step.At("aten._to_copy.default", 12), {step.Of(1, Whole(5))});
  step.judge.Take(Places(call, 0.5), step.evidence);
  EXPECT_EQ(step.size(), 0u);
}

TEST(OperatorJudgeIntegers, WhatOnlyCopiesThemOnIsNotToBlame) {
  JudgedStep step;
  step.Makes(step.Run(step.At("aten._to_copy.default", 5), {step.Of(9, Off(0), Element::kFloat32)}),
             1, Off(0.01));
  step.Makes(step.Run(step.At("aten.stack.default", 6), {step.Made(1)}), 2, Off(0.01));
  step.evidence.index_slot = step.Slot(Whole(500));
  const int call = step.Run(step.At("aten._to_copy.default", 12), {step.Of(2, Whole(5))});
  step.judge.Take(Places(call, 0.5), step.evidence);
  ASSERT_EQ(step.size(), 1u);
  EXPECT_EQ(step.judge.calls().PlaceOf(step[0].place).line, 5);
  EXPECT_EQ(step[0].dtype, "float32 → float16");
}

}  // namespace
}  // namespace mpnanny::judgement
