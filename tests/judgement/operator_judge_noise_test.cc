// References that are 0 but for rounding: what is noise, what is made of it, and what should cancel
// out and does not.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/judgement/judged_step.h"

namespace mpnanny::judgement {
namespace {

// Figures of a reference of size `reference`, held with an error of size `error`.
ReferenceError Sized(double reference, double error) {
  ReferenceError found = Off(0);
  found.squared_reference = reference * reference;
  found.squared_error = error * error;
  return found;
}

TEST(OperatorJudgeNoise, AReferenceThatIsItsOwnRoundingBesideTheErrorIsNoise) {
  struct {
    Element type;
    double rounding, error;
    bool noise;
  } const rows[] = {
      // 256 roundings of FP64 in half an ulp of the type.
      {Element::kFloat16, 0, 0x1p34, true},
      {Element::kFloat16, 0, 0.99 * 0x1p34, false},
      {Element::kBFloat16, 0, 0x1p37, true},
      {Element::kBFloat16, 0, 0.99 * 0x1p37, false},
      {Element::kFloat32, 0, 0x1p21, true},
      {Element::kFloat32, 0, 0.99 * 0x1p21, false},
      // The reference was computed in FP32.
      {Element::kFloat16, 0x1p-10, 0x1p10, true},
      {Element::kFloat16, 0x1p-10, 0.99 * 0x1p10, false},
  };
  for (const auto& row : rows) {
    JudgedStep step;
    Result result;
    result.type = row.type;
    result.rounding = row.rounding;
    result.call = step.Run(step.At("aten.mm.default", 12), {});
    result.memory = 1;
    result.slot = step.Slot(Sized(1, row.error));
    step.judge.Take(result, step.evidence);
    EXPECT_EQ(step.judge.MemoryOf(1).noise, row.noise) << row.error;
    EXPECT_EQ(step.size(), row.noise ? 0u : 1u);
    EXPECT_EQ(step.judge.MemoryOf(1).origin, row.noise ? kNone : 0);
  }
}

TEST(OperatorJudgeNoise, RoundingOfProductsGoesOnToWhatIsMadeOfThem) {
  JudgedStep step;
  Result product;
  product.rounding = 0x1p-10;
  step.Makes(step.Run(step.At("aten.mm.default", 12), {}), 1, Off(0), product);
  step.Makes(step.Run(step.At("aten.mul.Tensor", 13), {step.Of(9, Off(0)), step.Made(1)}), 2,
             Off(0));
  EXPECT_EQ(step.judge.MemoryOf(2).rounding, 0x1p-10);
  step.Makes(step.Run(step.At("aten.exp.default", 14), {step.Made(2)}), 3, Sized(1, 0x1p11));
  EXPECT_TRUE(step.judge.MemoryOf(3).noise);
}

TEST(OperatorJudgeNoise, WhatIsWrongBeforeIsNoRounding) {
  for (const double before : {0.19, 0.2}) {
    JudgedStep step;
    const int origin = step.Spoil(1, Off(before));
    step.Makes(step.Run(step.At("aten.mm.default", 12), {step.Made(1)}), 2, Sized(1, 0x1p40));
    EXPECT_EQ(step.judge.MemoryOf(2).noise, before < 0.2) << before;
    EXPECT_EQ(step.size(), before < 0.2 ? 1u : 2u);
    if (before >= 0.2) {
      EXPECT_EQ(step[1].parent, origin);
    }
  }
}

TEST(OperatorJudgeNoise, ADifferenceOfEqualValuesIsTheirRounding) {
  struct {
    const char* op;
    double rounding, left;  // of terms of size 1
    bool noise;
  } const rows[] = {
      {"aten.sub.Tensor", 0, 0x1p-45, true},
      {"aten.sub.Tensor", 0, 1.01 * 0x1p-45, false},
      {"aten.rsub.Scalar", 0, 0x1p-45, true},
      {"aten.rsub.Scalar", 0, 1.01 * 0x1p-45, false},
      {"aten.add.Tensor", 0, 0x1p-45, true},
      {"aten.add.Tensor", 0, 1.01 * 0x1p-45, false},
      {"aten.mul.Tensor", 0, 0x1p-45, false},
      {"aten.add.Tensor", 0x1p-30, 0x1p-20, true},
      {"aten.sub.Tensor", 0x1p-30, 0x1p-20, true},
      {"aten.sub.Tensor", 0x1p-30, 1.01 * 0x1p-20, false},
  };
  for (const auto& row : rows) {
    JudgedStep step;
    Result rest;
    rest.rounding = row.rounding;
    const int call =
        step.Run(step.At(row.op, 12), {step.Of(8, Sized(0.5, 0)), step.Of(9, Sized(1, 0))});
    step.Makes(call, 1, Sized(row.left, row.left), rest);
    EXPECT_EQ(step.judge.MemoryOf(1).noise, row.noise) << row.op << " " << row.left;
    EXPECT_EQ(step.size(), row.noise ? 0u : 1u);
  }
}

TEST(OperatorJudgeNoise, ATinyErrorOfNoiseIsNotEvenAskedAbout) {
  JudgedStep step;
  const int call = step.Run(step.At("aten.sub.Tensor", 12), {step.Of(9, Sized(1, 0))});
  step.Makes(call, 1, Sized(0x1p-46, 0.02 * 0x1p-46));
  EXPECT_FALSE(step.judge.MemoryOf(1).noise);
  step.Makes(call, 1, Sized(0x1p-46, 0.0201 * 0x1p-46));
  EXPECT_TRUE(step.judge.MemoryOf(1).noise);
}

TEST(OperatorJudgeNoise, ASumOfTermsThatIsZeroByDesignIsTheirRounding) {
  struct {
    const char* op;
    double left;  // the size of the one result of 100 terms of size 1
    bool noise;
  } const rows[] = {
      {"aten.mean.default", 0x1p-24, true},          {"aten.mean.default", 1.01 * 0x1p-24, false},
      {"aten.sum.dim_IntList", 100 * 0x1p-24, true}, {"aten.sum.dim_IntList", 101 * 0x1p-24, false},
      {"aten.prod.default", 0x1p-24, false},
  };
  for (const auto& row : rows) {
    JudgedStep step;
    const int call = step.Run(step.At(row.op, 12), {step.Of(9, Sized(10, 0))});
    ReferenceError found = Sized(row.left, row.left);
    found.numel = 1;
    step.Makes(call, 1, found);
    EXPECT_EQ(step.judge.MemoryOf(1).noise, row.noise) << row.op << " " << row.left;
  }
  // Four sums of 25 terms each.
  for (const bool noise : {true, false}) {
    JudgedStep step;
    const int call = step.Run(step.At("aten.sum.dim_IntList", 12), {step.Of(9, Sized(10, 0))});
    const double each = (noise ? 25 : 25.1) * 0x1p-24;
    ReferenceError found = Sized(2 * each, 2 * each);
    found.numel = 4;
    step.Makes(call, 1, found);
    EXPECT_EQ(step.judge.MemoryOf(1).noise, noise);
  }
}

TEST(OperatorJudgeNoise, ASumOfWhatWasNotComparedIsJudgedAsItIs) {
  JudgedStep step;
  Input unknown;
  unknown.memory = 9;
  step.Makes(step.Run(step.At("aten.sum.default", 12), {unknown}), 1, Sized(1e-9, 1e-9));
  step.Makes(step.Run(step.At("aten.sum.default", 13), {}), 2, Sized(1e-9, 1e-9));
  EXPECT_EQ(step.size(), 2u);
}

TEST(OperatorJudgeNoise, WhatShouldCancelOutAndDoesNotIsTheErrorThatCameIn) {
  for (const double before : {0.19, 0.2}) {
    JudgedStep step;
    const int origin = step.Spoil(1, Off(before));
    const int call = step.Run(step.At("aten.sub.Tensor", 12), {step.Made(1), step.Of(9, Off(0))});
    step.Makes(call, 2, Sized(0, 0.5));
    const Memory after = step.judge.MemoryOf(2);
    EXPECT_EQ(after.noise, before < 0.2);
    EXPECT_EQ(after.origin, before < 0.2 ? kNone : origin);
    EXPECT_EQ(after.error, before < 0.2 ? kForever : before);
    EXPECT_EQ(step.size(), 1u);
  }
}

// Memory 1 is noise.
void MakeNoise(JudgedStep& step) {
  step.Makes(step.Run(step.At("aten.mm.default", 5), {}), 1, Sized(1, 0x1p40));
  ASSERT_TRUE(step.judge.MemoryOf(1).noise);
}

TEST(OperatorJudgeNoise, WhatIsMadeOfNoiseIsNoiseIfItDependsOnIt) {
  for (const bool depends : {true, false}) {
    JudgedStep step;
    MakeNoise(step);
    step.evidence.depends_on_noise = depends;
    Input written = step.Made(1);
    written.read = false;
    const int call = step.Run(step.At("aten.mul.Tensor", 12),
                              {step.Of(9, Off(0)), step.Made(1), written, step.Made(1)});
    step.Makes(call, 2, Off(0.3));
    EXPECT_EQ(step.evidence.noise_asked, (std::vector<std::vector<int>>{{1, 3}}));
    EXPECT_EQ(step.judge.MemoryOf(2).noise, depends);
    EXPECT_EQ(step.size(), depends ? 0u : 1u);
    if (!depends) {
      EXPECT_EQ(step[0].error_in, 0) << "errors of noise mean nothing";
    }
  }
  JudgedStep step;
  step.Makes(step.Run(step.At("aten.mul.Tensor", 12), {step.Of(9, Off(0))}), 2, Off(0.3));
  EXPECT_TRUE(step.evidence.noise_asked.empty());
}

TEST(OperatorJudgeNoise, WhatIsNotFiniteIsNoNoise) {
  JudgedStep step;
  MakeNoise(step);
  step.Makes(step.Run(step.At("aten.exp_.default", 12), {step.Made(1)}), 1, OutOfRange(1));
  EXPECT_FALSE(step.judge.MemoryOf(1).noise);
}

TEST(OperatorJudgeNoise, OfAListAllNoiseIsLeftOutWhereTheTensorsOwnIsNoise) {
  JudgedStep step;
  MakeNoise(step);
  Input first = step.Made(1), second = step.Made(1), third = step.Of(9, Off(0));
  first.position = 0;
  second.position = 1;
  third.position = 2;
  const int call = step.Run(step.At("aten._foreach_mul.Scalar", 12), {first, second, third});
  Result rest;
  rest.position = 0;
  step.Makes(call, 2, Off(0.3), rest);
  EXPECT_EQ(step.evidence.noise_asked, (std::vector<std::vector<int>>{{0, 1}}));
  rest.position = 2;
  step.Makes(call, 3, Off(0.3), rest);
  EXPECT_EQ(step.evidence.noise_asked.size(), 1u);
}

TEST(OperatorJudgeNoise, InAnOptimizerSingleElementsMayBeNoise) {
  struct {
    Phase phase;
    double in, out;
    std::vector<double> asked;
  } const rows[] = {
      {Phase::kOptimizer, 0, 0.041, {0.04}},
      {Phase::kOptimizer, 0, 0.04, {}},
      {Phase::kOptimizer, 0.01, 0.081, {8 * 0.01}},
      {Phase::kOptimizer, 0.01, 0.08, {}},
      {Phase::kBackward, 0, 0.5, {}},
  };
  for (const auto& row : rows) {
    for (const bool noise : {true, false}) {
      JudgedStep step;
      step.evidence.is_noise_of_elements = noise;
      step.Makes(step.Run(step.At("aten.div.Tensor", 12, row.phase), {step.Of(1, Off(row.in))}), 2,
                 Off(row.out));
      EXPECT_EQ(step.evidence.noise_of_elements_asked, row.asked) << row.out;
      EXPECT_EQ(step.judge.MemoryOf(2).noise, noise && !row.asked.empty());
    }
  }
}

}  // namespace
}  // namespace mpnanny::judgement
