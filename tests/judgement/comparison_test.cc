// What the figures of a comparison mean.
#include "engines/judgement/comparison.h"

#include <gtest/gtest.h>

#include <limits>

namespace mpnanny::judgement {
namespace {

ReferenceError SquaresOf(double error, double reference) {
  ReferenceError found;
  found.numel = 4;
  found.squared_error = error;
  found.squared_reference = reference;
  return found;
}

TEST(Comparison, ErrorsAreRelativeInTheNorm) {
  EXPECT_EQ(ErrorOf(SquaresOf(1, 4)), 0.5);
  EXPECT_EQ(ErrorOf(SquaresOf(9, 4)), 1.5);
  EXPECT_EQ(ErrorOf(SquaresOf(0, 4)), 0);
  EXPECT_EQ(ErrorOf(SquaresOf(0, 0)), 0);
  EXPECT_EQ(ErrorOf(SquaresOf(1e-300, 0)), std::numeric_limits<double>::infinity());
  EXPECT_EQ(ErrorOf(SquaresOf(0x1p-80, 1)), 0x1p-40);
}

TEST(Comparison, NoiseIsWhatFp64MakesOfAnExactZeroOutOfTermsOfTheTypesSize) {
  struct {
    Element type;
    double rounding, least;
  } const rows[] = {
      {Element::kFloat16, 0, 0x1p-34},       {Element::kComplex32, 0, 0x1p-34},
      {Element::kBFloat16, 0, 0x1p-37},      {Element::kFloat32, 0, 0x1p-21},
      {Element::kComplex64, 0, 0x1p-21},     {Element::kFloat8E4M3, 0, 0x1p-41},
      {Element::kFloat8E5M2, 0, 0x1p-42},    {Element::kFloat64, 0, 256},
      {Element::kInt64, 0, 0x1p-21},         {Element::kBool, 0, 0x1p-21},
      {Element::kFloat16, 0x1p-35, 0x1p-34}, {Element::kFloat16, 0x1p-33, 0x1p-33},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(LeastOfNoise(row.type, row.rounding), row.least) << NameOf(row.type);
    const double error = 4;  // 2 squared
    const double limit = 4 * row.least * row.least;
    EXPECT_TRUE(IsNoise(SquaresOf(error, limit), row.type, row.rounding));
    EXPECT_TRUE(IsNoise(SquaresOf(error, 0.99 * limit), row.type, row.rounding));
    EXPECT_FALSE(IsNoise(SquaresOf(error, 1.01 * limit), row.type, row.rounding));
  }
}

}  // namespace
}  // namespace mpnanny::judgement
