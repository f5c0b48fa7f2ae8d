// Cures asked for, loops over one line, and where an error came in.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/judgement/judged_step.h"

namespace mpnanny::judgement {
namespace {

using Cures = std::vector<ScriptedEvidence::AskedCure>;

TEST(OperatorJudgeCure, AnErrorIsAskedAboutAsLargeAsItIs) {
  JudgedStep step;
  step.evidence.cure = Cure{{"train.py:101"}, {"aten.exp.default"}, "float32", 0.5, 0.001};
  step.Spoil(1, Off(0.5));
  EXPECT_EQ(step.evidence.cures_asked, (Cures{{FindingKind::kAmplified, 0.5, false}}));
  EXPECT_EQ(step[0].precision, Proof::kProven);
  ASSERT_TRUE(step[0].cure);
  EXPECT_EQ(step[0].cure->error_after, 0.001);
}

TEST(OperatorJudgeCure, WhatIsNotKeptCannotBeComputedAgain) {
  JudgedStep step;
  step.Makes(step.Run(step.At("aten.exp.default", 12), {}, false), 1, Off(0.5));
  EXPECT_TRUE(step.evidence.cures_asked.empty());
  EXPECT_EQ(step[0].precision, Proof::kNotTested);
}

TEST(OperatorJudgeCure, Fp32IsTriedFirstWhereTheErrorCameInWithANarrowType) {
  struct {
    Element before;  // what the operator that made it ran in
    double error;
    bool narrow;
  } const rows[] = {
      {Element::kFloat16, 0.01, true},    {Element::kBFloat16, 0.01, true},
      {Element::kFloat8E4M3, 0.01, true}, {Element::kFloat8E5M2, 0.01, true},
      {Element::kFloat32, 0.01, false},   {Element::kFloat16, 0, false},
  };
  for (const auto& row : rows) {
    JudgedStep step;
    step.MakesIn(row.before, step.Run(step.At("aten.mul.Tensor", 5), {}), 1, Off(row.error));
    step.MakesIn(Element::kFloat32, step.Run(step.At("aten.sub.Tensor", 12), {step.Made(1)}), 2,
                 Off(0.5));
    EXPECT_EQ(step.evidence.cures_asked, (Cures{{FindingKind::kAmplified, 0.5, row.narrow}}));
  }
}

TEST(OperatorJudgeCure, AnErrorTooSmallToBeAFindingIsToldByWhereItCameIn) {
  struct {
    double before;
    int line;
    bool told;
  } const rows[] = {{0.01, 5, true}, {0.01, 12, false}, {0, 5, false}};
  for (const auto& row : rows) {
    JudgedStep step;
    step.Makes(step.Run(step.At("aten.mul.Tensor", row.line), {}), 1, Off(row.before));
    step.Makes(step.Run(step.At("aten.sub.Tensor", 12), {step.Made(1)}), 2, Off(0.5));
    ASSERT_EQ(step.size(), 1u);
    EXPECT_EQ(step[0].came_in.has_value(), row.told);
    if (!row.told) continue;
    EXPECT_EQ(step[0].came_in->place, 0);
    EXPECT_EQ(step[0].came_in->error, row.before);
    EXPECT_EQ(step[0].came_in->dtype, "float16");
  }
  // Behind a finding it is that one which is told.
  JudgedStep step;
  step.Spoil(1, Off(0.05));
  step.Makes(step.Run(step.At("aten.sub.Tensor", 12), {step.Made(1)}), 2, Off(0.5));
  ASSERT_EQ(step.size(), 2u);
  EXPECT_FALSE(step[1].came_in);
}

// A running sum at line 12: in each turn a term with this error is added, and the sum is off by so
// much then.
struct Turn {
  double term, sum;
};
void Loop(JudgedStep& step, double entered, const std::vector<Turn>& turns) {
  const int place = step.At("aten.add.Tensor", 12);
  Input sum = step.Of(1, Off(entered));
  for (const Turn& turn : turns) {
    step.Makes(step.Run(place, {step.Of(50, Off(turn.term)), sum}), 1, Off(turn.sum));
    sum = step.Made(1);
  }
}

TEST(OperatorJudgeCure, ALoopOverALineCountsAsOneOperator) {
  // In portions, none of which is 5 times what came in before it.
  const std::vector<Turn> turns = {{0, 0.06}, {0, 0.1}, {0, 0.15}, {0, 0.2}, {0, 0.25}};
  for (const auto& [entered, is_wrong] :
       std::vector<std::pair<double, bool>>{{0.01, true}, {0.05, true}, {0.0501, false}}) {
    JudgedStep step;
    Loop(step, entered, turns);
    ASSERT_EQ(step.size(), is_wrong ? 1u : 0u) << entered;
    if (!is_wrong) continue;
    EXPECT_EQ(step[0].kind, FindingKind::kAmplified);
    EXPECT_EQ(step[0].error_in, entered);
    EXPECT_EQ(step[0].error_out, 0.25);
  }
}

TEST(OperatorJudgeCure, AnAccumulationTooLongIsCuredByAWiderOneIfItsTermsWereRight) {
  struct {
    Element type;  // of the terms
    double fed;
    bool proven;
    const char* what;
  } const rows[] = {
      {Element::kBFloat16, 0.001, true, "float32"}, {Element::kFloat32, 0.001, true, "float64"},
      {Element::kFloat64, 0.001, true, "float64"},  {Element::kComplex64, 0.001, true, "float64"},
      {Element::kFloat16, 0.05, true, "float32"},   {Element::kBFloat16, 0.051, false, ""},
  };
  for (const auto& row : rows) {
    JudgedStep step;
    const int place = step.At("aten.add.Tensor", 12);
    // Two turns, the first of which is a note.
    step.MakesIn(Element::kFloat32, step.Run(place, {step.Of(50, Off(0), row.type)}), 1,
                 Off(0.045));
    const int second = step.Run(
        place, {step.Made(1), step.Of(51, Off(row.fed), row.type), step.Of(52, Off(0), row.type)});
    step.MakesIn(Element::kFloat32, second, 1, Off(0.5));
    ASSERT_EQ(step.size(), 1u);
    EXPECT_EQ(step[0].count, 2);
    EXPECT_EQ(step[0].precision, row.proven ? Proof::kProven : Proof::kNotTested) << row.fed;
    ASSERT_EQ(step[0].cure.has_value(), row.proven);
    if (!row.proven) {
      EXPECT_EQ(step[0].why_no_cure, "too dear");
      continue;
    }
    EXPECT_EQ(step[0].cure->lines, Words{"train.py:12"});
    EXPECT_EQ(step[0].cure->operators, Words{"aten.add.Tensor"});
    EXPECT_EQ(step[0].cure->what, row.what);
    EXPECT_EQ(step[0].cure->error_before, 0.5);
    EXPECT_EQ(step[0].cure->error_after, row.fed);
    EXPECT_EQ(step[0].why_no_cure, "");
  }
}

TEST(OperatorJudgeCure, WhatWasFedIsTheWorstOfAllTurns) {
  for (const auto& turns : std::vector<std::vector<Turn>>{
           {{0, 0.045}, {0.03, 0.29}, {0.001, 0.5}}, {{0, 0.045}, {0.001, 0.2}, {0.03, 0.5}}}) {
    JudgedStep step;
    Loop(step, 0, turns);
    ASSERT_EQ(step.size(), 1u);
    ASSERT_TRUE(step[0].cure);
    const bool second = turns[1].term > turns[2].term;
    EXPECT_EQ(step[0].cure->error_after, second ? 0.03 : 0.001);
    EXPECT_EQ(step[0].cure->error_before, second ? 0.5 : 0.2);
  }
}

TEST(OperatorJudgeCure, ALoopIsCuredUpToTheErrorWithWhichItWasEntered) {
  for (const auto& [entered, cured] :
       std::vector<std::pair<double, bool>>{{0.05, true}, {0.0501, false}}) {
    JudgedStep step;
    Loop(step, entered, {{0, 0.09}, {0, 0.5}});
    ASSERT_EQ(step.size(), 1u);
    ASSERT_EQ(step[0].cure.has_value(), cured);
    if (cured) {
      EXPECT_EQ(step[0].cure->error_after, entered);
    }
  }
}

TEST(OperatorJudgeCure, NoiseThatIsFedIsNoErrorOfWhatIsFed) {
  JudgedStep step;
  ReferenceError noise = Off(0);
  noise.squared_error = 0x1p80;
  step.Makes(step.Run(step.At("aten.mm.default", 5), {}), 60, noise);
  ASSERT_TRUE(step.judge.MemoryOf(60).noise);
  const int place = step.At("aten.add.Tensor", 12);
  step.Makes(step.Run(place, {}), 1, Off(0.045));
  step.Makes(step.Run(place, {step.Made(60), step.Made(1)}), 1, Off(0.5));
  ASSERT_TRUE(step[0].cure);
  EXPECT_EQ(step[0].cure->error_after, 0);
}

TEST(OperatorJudgeCure, OneTurnIsNoLoopAndAnotherLineIsAnother) {
  JudgedStep step;
  step.Makes(step.Run(step.At("aten.add.Tensor", 11), {}), 1, Off(0.001));
  step.Makes(step.Run(step.At("aten.add.Tensor", 12), {step.Made(1), step.Of(9, Off(0.001))}), 2,
             Off(0.5));
  ASSERT_EQ(step.size(), 1u);
  EXPECT_FALSE(step[0].cure);
}

TEST(OperatorJudgeCure, ALoopWithoutAKnownLineHasACureWithoutLines) {
  JudgedStep step;
  const int place = step.At("aten.add.Tensor", 0);
  step.Makes(step.Run(place, {step.Of(1, Off(0))}, false), 1, Off(0.001));
  step.Makes(step.Run(place, {step.Made(1)}, false), 1, Off(0.5));
  ASSERT_TRUE(step[0].cure);
  EXPECT_TRUE(step[0].cure->lines.empty());
  EXPECT_EQ(step[0].cure->what, "float64") << "its types are not kept";
}

}  // namespace
}  // namespace mpnanny::judgement
