// Whether a tensor's values are numbers of FP16 or BF16, against rounding each of them.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "numerics/format.h"
#include "numerics/tensor_stats.h"
#include "tests/numerics/reference.h"

namespace mpnanny {
namespace {

template <typename Float>
TensorView View(const std::vector<Float>& values, const int64_t (&shape)[1]) {
  return {values.data(), sizeof(Float) == 8 ? DType::kFloat64 : DType::kFloat32, shape, {}};
}

template <typename Float>
TensorStats StatsOf(const std::vector<Float>& values) {
  const int64_t shape[] = {static_cast<int64_t>(values.size())};
  return ComputeStats(View(values, shape));
}

Grid GridOfValues(const std::vector<float>& values) { return GridOf(StatsOf(values)); }

std::vector<float> Normal(size_t size, double spread, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, spread);
  std::vector<float> values(size);
  for (float& x : values) x = static_cast<float>(normal(random));
  return values;
}

std::vector<float> Rounded(std::vector<float> values, Format format) {
  for (float& x : values) x = static_cast<float>(RoundTo(format, static_cast<double>(x)));
  return values;
}

template <typename Float>
void ExpectReference(const std::vector<Float>& values, const std::string& of) {
  const Reference ref = Refer({values.begin(), values.end()});
  const TensorStats got = StatsOf(values);
  EXPECT_EQ(got.on_fp16(), ref.on_fp16) << of;
  EXPECT_EQ(got.on_bf16(), ref.on_bf16) << of;
}

TEST(Grid, OneElementBesideItDecides) {
  // Single values of every kind among numbers of both formats, at places of vectors and behind
  // them.
  std::vector<double> odd;
  for (int exponent = -151; exponent <= 128; ++exponent) {
    for (const double significand : {1.0, 1 + 0x1p-7, 1 + 0x1p-8, 1 + 0x1p-10, 1 + 0x1p-11,
                                     1 + 0x1p-23, 1.5, 1.75, 2 - 0x1p-10}) {
      for (const double sign : {1.0, -1.0}) odd.push_back(sign * std::ldexp(significand, exponent));
    }
  }
  odd.insert(odd.end(), {0.0, -0.0, 65504, 65520, 65536, 0x1.fep127, 0x1.fffffep127, 0x1p-149});
  ForEachSimdLevel([&](const std::string& level) {
    for (const size_t at : {size_t{37}, size_t{66}}) {
      for (const double x : odd) {
        std::vector<double> wide(67, 1.0);
        wide[at] = x;
        ExpectReference(wide, level + ", FP64 " + std::to_string(std::log2(std::fabs(x))));
        std::vector<float> narrow(67, 1.0f);
        narrow[at] = static_cast<float>(x);
        if (std::isinf(narrow[at])) continue;
        ExpectReference(narrow, level + ", FP32 " + std::to_string(std::log2(std::fabs(x))));
        if (testing::Test::HasFailure()) return;
      }
    }
  });
}

TEST(Grid, OfFp64BeyondOtherFormats) {
  for (const double x : {1e300, 1e-300, 0x1p-1074, 0x1p-1022, 1e39, 0x1p-134}) {
    ExpectReference(std::vector<double>(20, x), std::to_string(std::log2(x)));
  }
}

TEST(Grid, OfRoundedValuesOfManyMagnitudes) {
  ForEachSimdLevel([](const std::string& level) {
    for (const double spread : {1e-45, 1e-40, 1e-38, 1e-8, 1e-6, 1e-4, 0.02, 1.0, 300.0, 1e5}) {
      for (const size_t size : {size_t{5}, size_t{1000}, size_t{9001}}) {
        const std::vector<float> values = Normal(size, spread);
        const std::string of = level + ", " + std::to_string(spread);
        ExpectReference(values, of);
        ExpectReference(Rounded(values, Format::kFp16), of);
        ExpectReference(Rounded(values, Format::kBf16), of);
      }
    }
  });
}

TEST(Grid, NamesTheFormatThatValuesHaveBeenIn) {
  const std::vector<float> values = Normal(5000, 0.02);
  EXPECT_EQ(GridOfValues(values), Grid::kNone);
  EXPECT_EQ(GridOfValues(Rounded(values, Format::kFp16)), Grid::kFp16);
  EXPECT_EQ(GridOfValues(Rounded(values, Format::kBf16)), Grid::kBf16);
}

TEST(Grid, IsNotChangedByWhatIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (const Format format : {Format::kFp16, Format::kBf16}) {
      std::vector<float> values = Rounded(Normal(5000, 0.02), format);
      const Grid before = GridOfValues(values);
      values[4321] = bad;
      EXPECT_EQ(GridOfValues(values), before);
    }
    std::vector<float> values = Normal(5000, 0.02);
    values[7] = bad;
    EXPECT_EQ(GridOfValues(values), Grid::kNone);
    EXPECT_EQ(GridOfValues(std::vector<float>(100, bad)), Grid::kTrivial);
  }
}

TEST(Grid, OfWhatSaysNothingIsTrivial) {
  std::mt19937 random(1);
  const auto made = [&random](size_t size, const std::function<double()>& value) {
    std::vector<float> values(size);
    for (float& x : values) x = static_cast<float>(value());
    return values;
  };
  EXPECT_EQ(GridOfValues({}), Grid::kTrivial);
  for (const float x : {0.0f, -0.0f, 1.0f, 0.1015625f}) {
    EXPECT_EQ(GridOfValues(std::vector<float>(1000, x)), Grid::kTrivial) << x;
  }
  const auto one_of = [&random](int most) { return 1 + static_cast<int>(random() % most); };
  EXPECT_EQ(GridOfValues(made(1000, [&] { return one_of(256); })), Grid::kTrivial);
  EXPECT_EQ(GridOfValues(made(9000, [&] { return one_of(2048); })), Grid::kTrivial);
  EXPECT_EQ(GridOfValues(made(9000, [&] { return one_of(100'000); })), Grid::kNone);
  EXPECT_EQ(GridOfValues(made(1000, [&] { return std::ldexp(1, one_of(60) - 40); })),
            Grid::kTrivial);
  EXPECT_EQ(GridOfValues(made(1000, [&] { return one_of(256) / 256.0; })),
            Grid::kTrivial);  // pixels
  EXPECT_EQ(GridOfValues(Rounded(Normal(5000, 1), Format::kE4M3)), Grid::kTrivial);
  EXPECT_EQ(GridOfValues(Rounded(Normal(8, 1), Format::kBf16)), Grid::kTrivial);  // a handful
}

TEST(Grid, OfOtherTypesIsUnknown) {
  const std::vector<char> memory(64);
  const int64_t shape[] = {16};
  for (const DType dtype :
       {DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat8E5M2}) {
    const TensorStats found = ComputeStats({memory.data(), dtype, shape, {}});
    EXPECT_EQ(GridOf(found), Grid::kUnknown);
    EXPECT_FALSE(found.on_fp16() || found.on_bf16());
  }
}

TEST(Grid, OfPartsTogether) {
  const std::vector<float> exact = Normal(5000, 0.02), half = Rounded(exact, Format::kFp16),
                           brain = Rounded(exact, Format::kBf16);
  const auto together = [](const std::vector<float>& a, const std::vector<float>& b) {
    TensorStats all = StatsOf(a);
    Merge(all, StatsOf(b));
    return GridOf(all);
  };
  EXPECT_EQ(together(half, half), Grid::kFp16);
  EXPECT_EQ(together(brain, brain), Grid::kBf16);
  EXPECT_EQ(together(half, exact), Grid::kNone);
  EXPECT_EQ(together(exact, half), Grid::kNone);
}

TEST(Grid, OfATensorWithGapsIsThatOfItsOwnElements) {
  std::vector<float> values = Rounded(Normal(4000, 0.02), Format::kBf16);
  for (size_t i = 1; i < values.size(); i += 2) values[i] = 0.1f;  // of another tensor
  const int64_t shape[] = {2000}, strides[] = {2};
  EXPECT_EQ(GridOf(ComputeStats({values.data(), DType::kFloat32, shape, strides})), Grid::kBf16);
}

}  // namespace
}  // namespace mpnanny
