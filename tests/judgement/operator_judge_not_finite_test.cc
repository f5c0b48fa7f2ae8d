// What is not finite: where the type is too small, where no precision helps, and where it was so
// before the step.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/judgement/judged_step.h"

namespace mpnanny::judgement {
namespace {

ReferenceError AlsoReferenceOnly(ReferenceError found) {
  found.reference_only = 1;
  return found;
}

TEST(OperatorJudgeNotFinite, TheKindFollowsFromWhatTheReferenceAndTheInputsAre) {
  const auto range = FindingKind::kRange;
  const auto undefined = FindingKind::kUndefined;
  struct {
    const char* what;
    ReferenceError in, out;
    std::optional<FindingKind> kind;
    double share;
  } const rows[] = {
      {"finite in the reference", Off(0), OutOfRange(3), range, 0.03},
      {"out of an infinity in both", InfiniteInBoth(1), OutOfRange(3), range, 0.03},
      {"out of NaN in both", NanInBoth(1), OutOfRange(3), {}, 0},
      {"out of what was out of range before", OutOfRange(1), OutOfRange(3), {}, 0},
      {"NaN in both", Off(0), NanInBoth(4), undefined, 0.04},
      {"infinite in both", Off(0), InfiniteInBoth(4), undefined, 0.04},
      {"and the reference elsewhere", Off(0), AlsoReferenceOnly(OutOfRange(5)), undefined, 0.05},
      {"infinity of an infinity", InfiniteInBoth(1), InfiniteInBoth(4), {}, 0},
      {"NaN of an infinity", InfiniteInBoth(1), NanInBoth(4), undefined, 0.04},
      {"NaN of NaN", NanInBoth(1), NanInBoth(4), {}, 0},
      {"infinity of NaN", NanInBoth(1), InfiniteInBoth(4), {}, 0},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    JudgedStep step;
    step.evidence.operands = {{1, 2}};
    Input in = step.Of(1, row.in);
    // What came in was made in this step, by an operator that was not compared.
    Result made;
    made.call = step.Run(step.At("aten.log.default", 5), {});
    made.memory = 1;
    step.judge.Take(made, step.evidence);
    EXPECT_FALSE(step.Makes(step.Run(step.At("aten.exp.default", 12), {in}), 2, row.out));
    ASSERT_EQ(step.size(), row.kind ? 1u : 0u);
    EXPECT_EQ(step.judge.MemoryOf(2).error, kForever);
    EXPECT_EQ(step.judge.MemoryOf(2).origin, row.kind ? 0 : kNone);
    if (!row.kind) continue;
    EXPECT_EQ(step[0].kind, *row.kind);
    EXPECT_EQ(step[0].share, row.share);
    EXPECT_EQ(step[0].error_out, kForever);
    EXPECT_EQ(step[0].operands, step.evidence.operands);
    EXPECT_EQ(
        step[0].inputs_from,
        (std::vector<std::pair<std::string, std::string>>{{"aten.log.default", "train.py:5"}}));
    EXPECT_EQ(step.evidence.cures_asked.size(), row.kind == range ? 1u : 0u);
    EXPECT_EQ(step[0].precision, row.kind == range ? Proof::kNotTested : Proof::kExcluded);
  }
}

TEST(OperatorJudgeNotFinite, WhatWasNotFiniteBeforeGoesOnAsThatFinding) {
  JudgedStep step;
  const int origin = step.Spoil(1, OutOfRange(1));
  ASSERT_EQ(step[origin].kind, FindingKind::kRange);
  for (const ReferenceError& found : {OutOfRange(2), NanInBoth(2), InfiniteInBoth(2)}) {
    step.Makes(step.Run(step.At("aten.mul.Tensor", 12), {step.Made(1)}), 2, found);
    EXPECT_EQ(step.size(), 1u);
    EXPECT_EQ(step.judge.MemoryOf(2).origin, origin);
    EXPECT_FALSE(step.judge.MemoryOf(2).noise);
  }
}

TEST(OperatorJudgeNotFinite, ACureOfTheRangeIsAskedForWithAnErrorWithoutEnd) {
  for (const bool is_cured : {true, false}) {
    JudgedStep step;
    if (is_cured) step.evidence.cure = Cure{{"train.py:12"}, {"aten.exp.default"}, "float32", 1, 0};
    step.Spoil(1, OutOfRange(1));
    EXPECT_EQ(step.evidence.cures_asked,
              (std::vector<ScriptedEvidence::AskedCure>{{FindingKind::kRange, kForever, false}}));
    EXPECT_EQ(step[0].precision, is_cured ? Proof::kProven : Proof::kNotTested);
    EXPECT_EQ(step[0].cure.has_value(), is_cured);
    EXPECT_EQ(step[0].why_no_cure, is_cured ? "" : "too dear");
  }
}

TEST(OperatorJudgeNotFinite, AMaskThatIsFilledInIsMeantSo) {
  struct {
    ReferenceError in, out;
    bool fills;
    size_t findings;
  } const rows[] = {
      {Off(0), InfiniteInBoth(4), true, 0},
      {Off(0), InfiniteInBoth(4), false, 1},
      {Off(0), NanInBoth(4), true, 1},
      {Off(0), OutOfRange(4), true, 1},
  };
  for (const auto& row : rows) {
    JudgedStep step;
    step.evidence.fills = row.fills;
    step.Makes(step.Run(step.At("aten.masked_fill.Scalar", 12), {step.Of(1, row.in)}), 2, row.out);
    EXPECT_EQ(step.size(), row.findings);
  }
}

TEST(OperatorJudgeNotFinite, PrecisionIsExcludedUnlessRoundingDecided) {
  struct {
    std::optional<bool> decides;
    bool kept;
    Proof precision;
    int asked;
  } const rows[] = {
      {true, true, Proof::kNotTested, 1},
      {false, true, Proof::kExcluded, 1},
      {std::nullopt, true, Proof::kNotTested, 1},
      {false, false, Proof::kExcluded, 1},
  };
  for (const auto& row : rows) {
    JudgedStep step;
    step.evidence.rounding_decides = row.decides;
    const int place = step.At("aten.log.default", 12);
    step.Makes(step.Run(place, {step.Of(1, Off(0))}, row.kept), 2, NanInBoth(1));
    step.Makes(step.Run(place, {step.Of(1, Off(0))}, row.kept), 3, NanInBoth(1));
    ASSERT_EQ(step.size(), 1u);
    EXPECT_EQ(step[0].precision, row.precision);
    EXPECT_EQ(step[0].rounded_before, row.decides.value_or(false));
    EXPECT_EQ(step[0].why_no_cure, row.decides ? "" : "too dear");
    EXPECT_EQ(step.evidence.rounding_asked, row.asked) << "once a place";
    EXPECT_EQ(step[0].count, 2);
  }
}

TEST(OperatorJudgeNotFinite, AnInfinityThatMeetsAZeroInTheBackwardPassIsPartOfWhatMadeIt) {
  struct {
    const char* what;
    Phase phase;
    std::string zero_at, meets;  // as the front end and the finding tell it
    size_t findings;
  } const rows[] = {
      {"a line that made the 0", Phase::kBackward, "train.py:46", "train.py:46", 1},
      {"not known", Phase::kBackward, "", "train.py:12", 1},
      {"the forward pass", Phase::kForward, "train.py:46", "", 2},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    JudgedStep step;
    step.evidence.singular = Singular{true, 0, 0, "", ""};
    const int pole = step.At("aten.div.Tensor", 8, row.phase);
    step.Makes(step.Run(pole, {step.Of(1, Off(0))}), 2, InfiniteInBoth(3));
    ASSERT_EQ(step.size(), 1u);
    EXPECT_EQ(step[0].singular.has_value(), row.phase == Phase::kBackward);
    step.evidence.singular = Singular{false, 0, 0, "aten.where.self", row.zero_at};
    const int place = step.At("aten.mul.Tensor", 12, row.phase);
    step.Makes(step.Run(place, {step.Made(2)}), 3, NanInBoth(3));
    ASSERT_EQ(step.size(), row.findings);
    if (row.findings > 1) continue;
    EXPECT_TRUE(step[0].singular->is_pole);
    EXPECT_EQ(step[0].singular->zero_at, row.meets);
    EXPECT_EQ(step.judge.MemoryOf(3).origin, 0);
  }
}

TEST(OperatorJudgeNotFinite, OperandsAreThoseOfTheFirstCall) {
  JudgedStep step;
  const int place = step.At("aten.log.default", 12);
  step.evidence.operands = {{1, 1}};
  step.Makes(step.Run(place, {}), 2, OutOfRange(1));
  step.evidence.operands = {{2, 2}};
  step.Makes(step.Run(place, {}), 3, OutOfRange(1));
  EXPECT_EQ(step[0].operands, (std::vector<std::array<double, 2>>{{1, 1}}));
}

TEST(OperatorJudgeNotFinite, WhatWasNotFiniteBeforeTheStepIsSaidOfWhomItComes) {
  struct {
    const char* what;
    Phase phase;
    Evidence::Owner owner;
    std::optional<std::string> unwritten;
    CarrierKind kind;
  } const rows[] = {
      {"a batch", Phase::kForward, {"", false}, {}, CarrierKind::kData},
      {"computed before", Phase::kForward, {"", false, true}, {}, CarrierKind::kData},
      {"a named buffer", Phase::kForward, {"buffer b", false}, {}, CarrierKind::kState},
      {"trained", Phase::kForward, {"", true}, {}, CarrierKind::kState},
      {"an optimizer's", Phase::kOptimizer, {"", false}, {}, CarrierKind::kState},
      {"an average's", Phase::kState, {"", false}, {}, CarrierKind::kState},
      {"unwritten", Phase::kForward, {"buffer b", true}, "train.py:3", CarrierKind::kUnwritten},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    JudgedStep step;
    step.evidence.owner = row.owner;
    if (row.unwritten) step.evidence.unwritten[1] = *row.unwritten;
    ReferenceError in = NanInBoth(2);
    in.infinite = 1;
    const int place = step.At("aten.mul.Tensor", 12, row.phase);
    const std::vector<Input> inputs = {step.Of(8, Off(0)), step.Of(9, in)};
    step.Makes(step.Run(place, inputs), 2, NanInBoth(50));
    ASSERT_EQ(step.size(), 1u);
    EXPECT_EQ(step[0].kind, FindingKind::kUndefined);
    EXPECT_EQ(step[0].share, 0.03) << "of what came in";
    EXPECT_EQ(step[0].error_in, 0);
    ASSERT_TRUE(step[0].carried);
    EXPECT_EQ(step[0].carried->kind, row.kind);
    EXPECT_EQ(step[0].carried->whose, row.owner.name);
    EXPECT_EQ(step[0].carried->made_at, row.unwritten.value_or(""));
    const bool is_unknown = row.kind == CarrierKind::kState || row.owner.is_doubtful;
    EXPECT_EQ(step[0].precision, is_unknown ? Proof::kNotTested : Proof::kExcluded);
    EXPECT_EQ(step.judge.MemoryOf(2).origin, 0);
    // Again at this place: the same.
    step.evidence.owner = {"another", true};
    step.Makes(step.Run(place, inputs), 3, NanInBoth(50));
    ASSERT_EQ(step.size(), 1u);
    EXPECT_EQ(step[0].count, 2);
    EXPECT_EQ(step[0].carried->whose, row.owner.name);
    EXPECT_EQ(step.judge.MemoryOf(3).origin, 0);
  }
}

TEST(OperatorJudgeNotFinite, TheInfinityOfAMaskIsMeantSoAndOneAboveZeroIsNot) {
  for (const bool is_above : {true, false}) {
    for (const ReferenceError& out : {InfiniteInBoth(4), NanInBoth(4)}) {
      JudgedStep step;
      step.evidence.is_above_zero[0] = is_above;
      step.Makes(step.Run(step.At("aten.add.Tensor", 12), {step.Of(1, InfiniteInBoth(2))}), 2, out);
      const bool is_undefined_here = out.undefined > 0 && !is_above;
      ASSERT_EQ(step.size(), is_above || is_undefined_here ? 1u : 0u);
      if (step.size() == 0) continue;
      EXPECT_EQ(step[0].carried.has_value(), is_above);
      EXPECT_EQ(step[0].share, is_above ? 0.02 : 0.04);
    }
  }
}

TEST(OperatorJudgeNotFinite, WhatCannotBeReadIsBlamedForNothing) {
  JudgedStep step;
  Input unknown;
  unknown.memory = 8;
  step.Makes(step.Run(step.At("aten.add.Tensor", 12), {unknown, step.Of(9, NanInBoth(7))}), 2,
             NanInBoth(50));
  ASSERT_EQ(step.size(), 1u);
  EXPECT_EQ(step[0].share, 0.07);
}

TEST(OperatorJudgeNotFinite, MemoryThatAnOperatorHasMadeWasNotThereBeforeUnlessUnwritten) {
  for (const bool unwritten : {true, false}) {
    JudgedStep step;
    if (unwritten) step.evidence.unwritten[0] = "train.py:3";
    Result made;
    made.call = step.Run(step.At("aten.empty.memory_format", 5), {});
    made.memory = 1;
    step.judge.Take(made, step.evidence);
    step.Makes(step.Run(step.At("aten.mul.Tensor", 12), {step.Of(1, NanInBoth(2))}), 2,
               NanInBoth(2));
    EXPECT_EQ(step.size(), unwritten ? 1u : 0u);
  }
}

}  // namespace
}  // namespace mpnanny::judgement
