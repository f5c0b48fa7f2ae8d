// What makes an operator's result an error, and of which kind: each threshold just below, at it and
// just above.
#include "engines/judgement/operator_judge.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/judgement/judged_step.h"

namespace mpnanny::judgement {
namespace {

// One operator, of one input: what was found, nullopt for nothing.
struct OneOperator {
  ReferenceError in, out;
  std::optional<FindingKind> kind;
};

void Judged(const std::vector<OneOperator>& rows) {
  for (size_t at = 0; at < rows.size(); ++at) {
    SCOPED_TRACE("row " + std::to_string(at));
    JudgedStep step;
    const int call = step.Run(step.At("aten.mul.Tensor", 12), {step.Of(1, rows[at].in)});
    EXPECT_FALSE(step.Makes(call, 2, rows[at].out));
    ASSERT_EQ(step.size(), rows[at].kind ? 1u : 0u);
    EXPECT_EQ(step.judge.MemoryOf(2).origin, rows[at].kind ? 0 : kNone);
    if (rows[at].kind) {
      EXPECT_EQ(step[0].kind, *rows[at].kind);
    }
  }
}

ReferenceError Flushing(double error, double part, int64_t flushed, int64_t in_range) {
  ReferenceError found = Off(error);
  found.flushed = flushed;
  found.flushed_in_range = in_range;
  found.squared_flushed = part * found.squared_error;
  return found;
}

ReferenceError FlushingMany(int64_t flushed, int64_t that_matter, int64_t in_range) {
  ReferenceError found = Off(0.03);
  found.flushed = flushed;
  found.flushed_that_matter = that_matter;
  found.flushed_that_matter_in_range = in_range;
  return found;
}

ReferenceError Clipping(double error, int64_t clipped) {
  ReferenceError found = Off(error);
  found.numel = found.nonzero = 100000;
  found.clipped = clipped;
  return found;
}

TEST(OperatorJudge, WhatIsWrongAndMadeHereIsAmplified) {
  const auto amplified = FindingKind::kAmplified;
  Judged({
      // A note: above 0.04, and 8 times what came in.
      {Off(0), Off(0.0399), {}},
      {Off(0), Off(0.04), {}},
      {Off(0), Off(0.0401), amplified},
      {Off(0.0249), Off(0.2), amplified},
      {Off(0.025), Off(0.2), amplified},
      {Off(0.0251), Off(0.2), {}},
      // Wrong: above 0.2, and 5 times.
      {Off(0.0251), Off(0.201), amplified},
      {Off(0.0499), Off(0.25), amplified},
      {Off(0.05), Off(0.25), amplified},
      {Off(0.0501), Off(0.25), {}},
      {Off(0.5), Off(0.6), {}},
      // What is finite out of what left its range is not known to be made here.
      {OutOfRange(1), Off(0.5), {}},
      {NanInBoth(1), Off(0.5), amplified},
  });
}

TEST(OperatorJudge, AnAmplifiedResultIsToldWithItsFigures) {
  JudgedStep step;
  const int call = step.Run(step.At("aten.mul.Tensor", 12, Phase::kForward, "encoder"),
                            {step.Of(1, Off(0.02), Element::kBFloat16)});
  step.MakesIn(Element::kFloat16, call, 2, Off(0.5));
  ASSERT_EQ(step.size(), 1u);
  const Finding& found = step[0];
  EXPECT_EQ(found.place, 0);
  EXPECT_EQ(found.number, call);
  EXPECT_EQ(found.dtype, "bfloat16 → float16");
  EXPECT_EQ(found.shape, (std::vector<int64_t>{10, 10}));
  EXPECT_EQ(found.share, 1);
  EXPECT_EQ(found.magnitude, 0.5);
  EXPECT_EQ(found.error_in, 0.02);
  EXPECT_EQ(found.error_out, 0.5);
  EXPECT_EQ(found.parent, kNone);
  EXPECT_EQ(found.count, 1);
}

TEST(OperatorJudge, AnErrorMostOfWhichTheTypeHasNoNumberForIsFlushed) {
  const auto flushed = FindingKind::kFlushed;
  const auto amplified = FindingKind::kAmplified;
  Judged({
      {Off(0), Flushing(0.3, 0.49, 20, 0), amplified},
      {Off(0), Flushing(0.3, 0.5, 20, 0), amplified},
      {Off(0), Flushing(0.3, 0.51, 20, 0), flushed},
      // What was rounded away before has a number in the type.
      {Off(0), Flushing(0.3, 0.9, 20, 9), flushed},
      {Off(0), Flushing(0.3, 0.9, 20, 10), amplified},
      {Off(0), Flushing(0.3, 0.9, 20, 11), amplified},
      {Off(0), Flushing(0.3, 0.9, 0, 0), amplified},
  });
  JudgedStep step;
  step.Makes(step.Run(step.At("aten.mul.Tensor", 12), {}), 2, Flushing(0.3, 0.9, 20, 0));
  EXPECT_EQ(step[0].share, 0.2);
  EXPECT_EQ(step[0].error_out, 0.3);
}

TEST(OperatorJudge, ManyThatBecameZeroAreFlushedThoughTheyAreLittleOfTheWhole) {
  const auto flushed = FindingKind::kFlushed;
  ReferenceError zeros = Off(0);
  Judged({
      {zeros, FlushingMany(30, 30, 0), {}},
      {zeros, FlushingMany(31, 31, 0), flushed},
      {zeros, FlushingMany(90, 29, 0), {}},
      {zeros, FlushingMany(90, 30, 0), flushed},
      {zeros, FlushingMany(90, 40, 20), flushed},
      {zeros, FlushingMany(90, 40, 21), {}},
      {Flushing(0, 0, 39, 0), FlushingMany(90, 80, 0), flushed},
      {Flushing(0, 0, 40, 0), FlushingMany(90, 80, 0), {}},
      {Flushing(0, 0, 41, 0), FlushingMany(90, 80, 0), {}},
  });
  // The share is of those that matter among those that are not 0.
  JudgedStep step;
  ReferenceError found = FlushingMany(90, 40, 0);
  found.nonzero = 80;
  step.Makes(step.Run(step.At("aten.mul.Tensor", 12), {step.Of(1, Off(0.03))}), 2, found);
  ASSERT_EQ(step.size(), 1u);
  EXPECT_EQ(step[0].share, 0.5);
  EXPECT_EQ(step[0].error_in, 0);
  EXPECT_EQ(step[0].error_out, 0.03);
  ASSERT_EQ(step.evidence.cures_asked.size(), 1u);
  EXPECT_EQ(step.evidence.cures_asked[0],
            (ScriptedEvidence::AskedCure{FindingKind::kFlushed, 0.03, false}));
}

TEST(OperatorJudge, OneOfAThousandThatIsCutOffIsClipped) {
  const auto clipped = FindingKind::kClipped;
  Judged({
      {Off(0.1), Clipping(0.101, 0), {}},
      {Off(0.1), Clipping(0.101, 100), {}},
      {Off(0.1), Clipping(0.101, 101), clipped},
      {Off(0.1), Clipping(0.1, 200), {}},
      {Off(0.1), Clipping(0.099, 200), {}},
      // Rather clipped than amplified.
      {Off(0), Clipping(0.5, 200), clipped},
  });
  JudgedStep step;
  step.Makes(step.Run(step.At("aten.clamp.default", 12), {step.Of(1, Off(0.02))}), 2,
             Clipping(0.5, 50000));
  EXPECT_EQ(step[0].share, 0.5);
  EXPECT_EQ(step[0].error_in, 0);
  EXPECT_EQ(step[0].error_out, 0.5);
  EXPECT_EQ(step.evidence.cures_asked.size(), 1u);
}

TEST(OperatorJudge, TheWorstInputIsWhatCameIn) {
  for (const bool worst_first : {true, false}) {
    JudgedStep step;
    const Input little = step.Of(1, Off(0.01)), much = step.Of(2, Off(0.1));
    const std::vector<Input> inputs =
        worst_first ? std::vector{much, little} : std::vector{little, much};
    step.Makes(step.Run(step.At("aten.add.Tensor", 12), inputs), 3, Off(0.3));
    EXPECT_EQ(step.size(), 0u);
  }
}

TEST(OperatorJudge, WhatIsOnlyWrittenIsNoInput) {
  JudgedStep step;
  Input target = step.Of(1, Off(0.9));
  target.read = false;
  step.Makes(step.Run(step.At("aten.mul.out", 12), {target}), 1, Off(0.3));
  ASSERT_EQ(step.size(), 1u);
  EXPECT_EQ(step[0].error_in, 0);
}

TEST(OperatorJudge, OfListsATensorIsMadeOfTheOnesAtItsPosition) {
  for (const int position : {0, 1}) {
    JudgedStep step;
    Input first = step.Of(1, Off(0.5)), second = step.Of(2, Off(0));
    first.position = 0;
    second.position = 1;
    Result rest;
    rest.position = position;
    step.Makes(step.Run(step.At("aten._foreach_mul.Scalar", 12), {first, second}), 3, Off(0.3),
               rest);
    EXPECT_EQ(step.size(), position == 0 ? 0u : 1u);
  }
  // What belongs to no list goes into each.
  JudgedStep step;
  Input scalar = step.Of(1, Off(0.5)), second = step.Of(2, Off(0));
  second.position = 1;
  Result rest;
  rest.position = 1;
  step.Makes(step.Run(step.At("aten._foreach_mul.Tensor", 12), {scalar, second}), 3, Off(0.3),
             rest);
  EXPECT_EQ(step.size(), 0u);
}

TEST(OperatorJudge, FiguresOfAnInputAreAskedForOnceWhereTheyAreNotOnTheTape) {
  JudgedStep step;
  Input unknown;
  unknown.memory = 1;
  const Input known = step.Of(2, Off(0));
  step.evidence.input_slots[1] = step.Slot(Off(0.2));
  const int call = step.Run(step.At("aten.add.Tensor", 12), {known, unknown});
  step.Makes(call, 3, Off(0.3));
  step.Makes(call, 4, Off(0.3));
  EXPECT_EQ(step.size(), 0u);
  EXPECT_EQ(step.evidence.inputs_asked, (std::vector<int>{1}));
}

TEST(OperatorJudge, ACarriedErrorNamesTheFindingBeforeIt) {
  JudgedStep step;
  const int first = step.Spoil(1, Off(0.05));
  // Goes on unchanged, and is followed while it is above 0.02.
  for (const auto& [error, origin] :
       std::vector<std::pair<double, int>>{{0.019, kNone}, {0.02, kNone}, {0.0201, first}}) {
    const int call = step.Run(step.At("aten.mul.Tensor", 20), {step.Made(1)});
    step.Makes(call, 2, Off(error));
    EXPECT_EQ(step.judge.MemoryOf(2).origin, origin) << error;
    EXPECT_EQ(step.judge.MemoryOf(2).error, error);
    EXPECT_EQ(step.judge.MemoryOf(2).producer, call);
  }
  // A worse one that is made out of it has it for a parent.
  step.Makes(step.Run(step.At("aten.sub.Tensor", 30), {step.Made(2)}), 3, Off(0.5));
  ASSERT_EQ(step.size(), 2u);
  EXPECT_EQ(step[1].parent, first);
  EXPECT_EQ(step.judge.MemoryOf(3).origin, 1);
}

TEST(OperatorJudge, TheErrorThatGoesOnIsTheWorstOnesWhereverItStands) {
  for (const bool worst_first : {true, false}) {
    JudgedStep step;
    const int little = step.Spoil(1, Off(0.3)), much = step.Spoil(2, Off(0.4));
    ASSERT_NE(little, much);
    std::vector<Input> inputs = {step.Made(1), step.Made(2)};
    if (worst_first) std::swap(inputs[0], inputs[1]);
    step.Makes(step.Run(step.At("aten.add.Tensor", 20), inputs), 3, Off(0.35));
    EXPECT_EQ(step.judge.MemoryOf(3).origin, much);
    EXPECT_EQ(step.size(), 2u);
  }
}

TEST(OperatorJudge, AnErrorWithoutAFindingDoesNotStandBeforeOneThatHasOne) {
  JudgedStep step;
  const int origin = step.Spoil(1, Off(0.3));
  step.judge.Take(Enters{2, 0.9});
  for (const bool origin_first : {true, false}) {
    std::vector<Input> inputs = {step.Made(1), step.Of(2, Off(0.9))};
    if (!origin_first) std::swap(inputs[0], inputs[1]);
    step.Makes(step.Run(step.At("aten.add.Tensor", 20), inputs), 3, Off(0.5));
    EXPECT_EQ(step.judge.MemoryOf(3).origin, origin);
  }
}

TEST(OperatorJudge, ACallKeepsTheErrorOfItsNewestResultAndTheWorstOfAll) {
  JudgedStep step;
  const int call = step.Run(step.At("aten.mul.Tensor", 12), {});
  step.Makes(call, 1, Off(0.03));
  step.Makes(call, 2, Off(0.01));
  EXPECT_EQ(step.judge.calls()[call].error, 0.01);
  EXPECT_EQ(step.judge.calls()[call].worst, 0.03);
  step.Makes(call, 3, OutOfRange(1));
  step.Makes(call, 4, NanInBoth(1));
  EXPECT_EQ(step.judge.calls()[call].error, 0) << "in the reference, too";
  EXPECT_EQ(step.judge.calls()[call].worst, kForever);
}

TEST(OperatorJudge, SeveralCallsOfAPlaceAreOneFindingWithTheWorseFigures) {
  JudgedStep step;
  const int place = step.At("aten.mul.Tensor", 12);
  step.Makes(step.Run(place, {}), 1, Off(0.3));
  step.Makes(step.Run(place, {}), 2, Off(0.5));
  step.Makes(step.Run(step.At("aten.mul.Tensor", 12), {}), 3, Off(0.4));
  ASSERT_EQ(step.size(), 1u);
  EXPECT_EQ(step[0].count, 3);
  EXPECT_EQ(step[0].number, 0);
  EXPECT_EQ(step[0].error_out, 0.5);
  EXPECT_EQ(step.evidence.cures_asked.size(), 1u);
  // Another line, phase or module is another place.
  step.Makes(step.Run(step.At("aten.mul.Tensor", 13), {}), 4, Off(0.4));
  step.Makes(step.Run(step.At("aten.mul.Tensor", 12, Phase::kBackward), {}), 5, Off(0.4));
  step.Makes(step.Run(step.At("aten.mul.Tensor", 12, Phase::kForward, "fc"), {}), 6, Off(0.4));
  EXPECT_EQ(step.size(), 4u);
}

TEST(OperatorJudge, WhatWasNotComparedIsNotJudged) {
  JudgedStep step;
  const int call = step.Run(step.At("aten.mul.Tensor", 12), {});
  Result row;
  row.call = call;
  row.memory = 1;
  EXPECT_FALSE(step.judge.Take(row, step.evidence));
  EXPECT_EQ(step.judge.compared(), 0);
  EXPECT_EQ(step.judge.MemoryOf(1).producer, call);
  EXPECT_FALSE(step.Makes(call, 2, ReferenceError{}));
  EXPECT_EQ(step.judge.compared(), 0);
  step.Makes(call, 3, Off(0));
  EXPECT_EQ(step.judge.compared(), 1);
}

TEST(OperatorJudge, AReferenceThatIsNotFiniteWhereTheHeldValueIsBeginsAnew) {
  JudgedStep step;
  step.Spoil(1, Off(0.5));
  ReferenceError found = Off(0.5);
  found.reference_only = 1;
  EXPECT_TRUE(step.Makes(step.Run(step.At("aten.log.default", 12), {step.Made(1)}), 2, found));
  EXPECT_EQ(step.judge.MemoryOf(2).error, 0);
  EXPECT_EQ(step.judge.MemoryOf(2).origin, kNone);
  // Nor does the error of before go on where it is written in place.
  EXPECT_TRUE(step.Makes(step.Run(step.At("aten.log_.default", 14), {step.Made(1)}), 1, found));
  EXPECT_EQ(step.judge.MemoryOf(1).error, 0);
  EXPECT_EQ(step.judge.MemoryOf(1).origin, kNone);
  EXPECT_EQ(step.size(), 1u);
  // Not where the held value is not finite either.
  found.undefined = 1;
  EXPECT_FALSE(step.Makes(step.Run(step.At("aten.log.default", 13), {}), 3, found));
}

TEST(OperatorJudge, WhatBeganAnewIsExactForWhoeverReadsItsFigures) {
  JudgedStep step;
  ReferenceError found = Off(0.5);
  found.reference_only = 1;
  ASSERT_TRUE(step.Makes(step.Run(step.At("aten.log.default", 12), {}), 1, found));
  // A front end that has put the reference right in place compares it no second time.
  const Input read = step.Made(1);
  step.Makes(step.Run(step.At("aten.exp.default", 13), {read}), 2, Off(0.5));
  ASSERT_EQ(step.size(), 1u);
  EXPECT_EQ(step[0].error_in, 0);
  EXPECT_EQ(step[0].error_out, 0.5);
  EXPECT_EQ(step.judge.slots().At(read.slot)->max_reference, 0.5);
}

}  // namespace
}  // namespace mpnanny::judgement
