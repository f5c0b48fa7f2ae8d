// Against sums in long double and a second way to the hash; parts, layouts, NaN, empty tensors.
#include "numerics/rank_figures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace mpnanny {
namespace {

TensorView Row(const void* data, DType dtype, const int64_t& count) {
  return {data, dtype, std::span(&count, 1), {}};
}

std::vector<float> Numbers(size_t count) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& each : numbers) each = normal(random);
  return numbers;
}

// The sign of an element's term in a row of the sketch, asked of the function itself: of a tensor
// that is 1 there and 0 elsewhere.
double Sign(int64_t place, size_t row) {
  const float one = 1;
  const int64_t count = 1;
  return ComputeRankFigures(Row(&one, DType::kFloat32, count), place).sketch[row];
}

TEST(RankFigures, SumsAreThoseOfTheElements) {
  const std::vector<float> numbers = Numbers(5000);
  const auto count = static_cast<int64_t>(numbers.size());
  const RankFigures found = ComputeRankFigures(Row(numbers.data(), DType::kFloat32, count));
  long double squares = 0, sketch[kSketchRows] = {};
  for (size_t i = 0; i < numbers.size(); ++i) {
    squares += static_cast<long double>(numbers[i]) * numbers[i];
    for (size_t row = 0; row < kSketchRows; ++row) {
      const double sign = Sign(static_cast<int64_t>(i), row);
      ASSERT_EQ(std::fabs(sign), 1);
      sketch[row] += sign * static_cast<long double>(numbers[i]);
    }
  }
  EXPECT_EQ(found.numel, count);
  EXPECT_EQ(found.nonfinite, 0);
  EXPECT_NEAR(found.squares, static_cast<double>(squares), 1e-9);
  for (size_t row = 0; row < kSketchRows; ++row)
    EXPECT_NEAR(found.sketch[row], static_cast<double>(sketch[row]), 1e-9);
}

TEST(RankFigures, SignsAreBalancedAndRowsAreIndependent) {
  double sum[kSketchRows] = {}, product = 0;
  constexpr int64_t kCount = 20'000;
  for (int64_t i = 0; i < kCount; ++i) {
    for (size_t row = 0; row < kSketchRows; ++row) sum[row] += Sign(i, row);
    product += Sign(i, 0) * Sign(i, 1);
  }
  constexpr double kFiveSigmas = 5 * 141.4;  // of a sum of 20,000 signs
  for (const double each : sum) EXPECT_LT(std::fabs(each), kFiveSigmas);
  EXPECT_LT(std::fabs(product), kFiveSigmas);
}

TEST(RankFigures, PartsAddUpToTheWhole) {
  const std::vector<float> numbers = Numbers(999);
  const int64_t all = 999, first = 400, rest = 599;
  const RankFigures whole = ComputeRankFigures(Row(numbers.data(), DType::kFloat32, all));
  const RankFigures a = ComputeRankFigures(Row(numbers.data(), DType::kFloat32, first));
  const RankFigures b =
      ComputeRankFigures(Row(numbers.data() + first, DType::kFloat32, rest), first);
  EXPECT_EQ(whole.hash, a.hash + b.hash);
  EXPECT_NEAR(whole.sketch[1], a.sketch[1] + b.sketch[1], 1e-9);
  const RankFigures misplaced =
      ComputeRankFigures(Row(numbers.data() + first, DType::kFloat32, rest));
  EXPECT_NE(whole.hash, a.hash + misplaced.hash);
}

TEST(RankFigures, LayoutDoesNotMatterAndOrderDoes) {
  const std::vector<float> numbers = Numbers(6 * 7);
  std::vector<float> turned(numbers.size());
  for (size_t i = 0; i < 6; ++i)
    for (size_t j = 0; j < 7; ++j) turned[j * 6 + i] = numbers[i * 7 + j];
  const int64_t shape[] = {6, 7}, strides[] = {7, 1}, turned_strides[] = {1, 6};
  const RankFigures plain = ComputeRankFigures({numbers.data(), DType::kFloat32, shape, strides});
  const RankFigures transposed =
      ComputeRankFigures({turned.data(), DType::kFloat32, shape, turned_strides});
  EXPECT_EQ(plain.hash, transposed.hash);
  EXPECT_EQ(plain.sketch, transposed.sketch);
  EXPECT_NE(plain.hash, ComputeRankFigures({turned.data(), DType::kFloat32, shape, strides}).hash);
}

TEST(RankFigures, OneBitChangesTheHash) {
  std::vector<float> numbers = Numbers(1 << 17);
  const auto count = static_cast<int64_t>(numbers.size());
  const uint64_t before = ComputeRankFigures(Row(numbers.data(), DType::kFloat32, count)).hash;
  numbers[77'777] = std::nextafter(numbers[77'777], 9.F);
  EXPECT_NE(before, ComputeRankFigures(Row(numbers.data(), DType::kFloat32, count)).hash);
  numbers[77'777] = std::nextafter(numbers[77'777], -9.F);
  EXPECT_EQ(before, ComputeRankFigures(Row(numbers.data(), DType::kFloat32, count)).hash);
  // All signs at once, which a sum of the bits alone would not see in a power of two of elements.
  for (float& each : numbers) each = -each;
  EXPECT_NE(before, ComputeRankFigures(Row(numbers.data(), DType::kFloat32, count)).hash);
  // 0 and -0 are equal numbers and other bits.
  const float zero = 0, negative = -0.F;
  const int64_t one = 1;
  EXPECT_NE(ComputeRankFigures(Row(&zero, DType::kFloat32, one)).hash,
            ComputeRankFigures(Row(&negative, DType::kFloat32, one)).hash);
}

TEST(RankFigures, NonFiniteElementsAreCountedAndLeftOutOfSums) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> numbers = {1, std::nanf(""), 2, -inf, inf, 1e-42F};
  const int64_t count = 6;
  const RankFigures found = ComputeRankFigures(Row(numbers.data(), DType::kFloat32, count));
  EXPECT_EQ(found.nonfinite, 3);
  EXPECT_DOUBLE_EQ(found.squares, 5);  // the subnormal adds nothing that double holds
  EXPECT_TRUE(std::isfinite(found.sketch[0]));
}

TEST(RankFigures, NarrowTypesAndNothing) {
  const std::vector<uint16_t> halves = {0x3C00, 0xC000, 0x0001};  // 1, -2, the smallest subnormal
  const int64_t three = 3, none = 0;
  const RankFigures half = ComputeRankFigures(Row(halves.data(), DType::kFloat16, three));
  EXPECT_NEAR(half.squares, 5, 1e-12);
  const RankFigures brain = ComputeRankFigures(Row(halves.data(), DType::kBFloat16, three));
  EXPECT_EQ(half.hash, brain.hash);  // the same bits
  EXPECT_NE(half.squares, brain.squares);
  const RankFigures empty = ComputeRankFigures(Row(halves.data(), DType::kFloat16, none));
  EXPECT_EQ(empty.numel, 0);
  EXPECT_EQ(empty.hash, 0U);
}

}  // namespace
}  // namespace mpnanny
