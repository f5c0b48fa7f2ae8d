#include "numerics/format_error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "numerics/format.h"
#include "tests/numerics/plain_comparison.h"

namespace mpnanny {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInf = std::numeric_limits<double>::infinity();

FormatErrors Measure(const std::vector<double>& values) {
  const std::vector<int64_t> shape = {static_cast<int64_t>(values.size())};
  return MeasureFormats(View(values, shape));
}

// The header's sentences, by format.h's rounding; sums in long double.
struct Plain {
  long double error = 0, norm = 0;
  double relative() const { return norm > 0 ? static_cast<double>(sqrtl(error / norm)) : 0; }
};
Plain RoundPlainly(const std::vector<double>& values, Format format, int scale) {
  Plain sums;
  const double largest = Info(format).max;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    const double scaled = std::ldexp(value, scale);
    double held = RoundTo(format, scaled);
    if (!std::isfinite(held)) held = std::copysign(largest, scaled);
    const long double error = std::ldexp(static_cast<long double>(held), -scale) - value;
    sums.error += error * error;
    sums.norm += static_cast<long double>(value) * value;
  }
  return sums;
}
double BestPlainly(const std::vector<double>& values, Format format, int from = -200,
                   int to = 200) {
  double best = kInf;
  for (int scale = from; scale <= to; ++scale) {
    best = std::min(best, RoundPlainly(values, format, scale).relative());
  }
  return best;
}

void ExpectPlain(const std::vector<double>& values) {
  const FormatErrors found = Measure(values);
  int64_t finite = 0, over = 0, under = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    ++finite;
    const double half = RoundTo(Format::kFp16, value);
    over += std::isinf(half) ? 1 : 0;
    under += value != 0 && half == 0 ? 1 : 0;
  }
  EXPECT_EQ(found.finite, finite);
  EXPECT_EQ(found.fp16_overflow, over);
  EXPECT_EQ(found.fp16_underflow, under);
  const auto expect = [&](double got, double expected, const char* what) {
    EXPECT_NEAR(got, expected, 1e-9 * expected) << what;
  };
  expect(found.fp16, RoundPlainly(values, Format::kFp16, 0).relative(), "fp16");
  expect(found.bf16, RoundPlainly(values, Format::kBf16, 0).relative(), "bf16");
  expect(found.e4m3, BestPlainly(values, Format::kE4M3), "e4m3");
  expect(found.e5m2, BestPlainly(values, Format::kE5M2), "e5m2");
  expect(RoundPlainly(values, Format::kE4M3, found.e4m3_scale).relative(), found.e4m3, "scale");
  expect(RoundPlainly(values, Format::kE5M2, found.e5m2_scale).relative(), found.e5m2, "scale");
}

TEST(MeasureFormats, AgreesWithAPlainLoop) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (const size_t size : {1, 2, 7, 8, 9, 300, 5001}) {
    for (const double spread : {0.0, 1.0, 4.0, 12.0}) {  // of the logarithm: heavier and heavier
      for (const double unit : {1.0, 1e-9, 1e6, 1e-30, 1e30}) {
        SCOPED_TRACE(testing::Message() << size << ", " << spread << ", " << unit);
        std::vector<double> values(size);
        for (double& each : values) {
          each = unit * normal(random) * std::exp(spread * normal(random));
        }
        ExpectPlain(values);
      }
    }
  }
}

// At the ends of each format and half-way between two of its numbers.
TEST(MeasureFormats, RoundsTiesAndEndsAsTheFormatsDo) {
  for (const Format format : {Format::kFp16, Format::kBf16, Format::kE4M3, Format::kE5M2}) {
    const FormatInfo& info = Info(format);
    std::vector<double> starts = {info.max, info.min_normal, info.min_subnormal, 1.0, 1.75};
    for (const double start : starts) {
      const double ulp = start == info.max ? std::ldexp(info.epsilon, info.max_exponent)
                         : start < 1       ? info.min_subnormal
                                           : info.epsilon;
      for (const double steps : {-1.5, -1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5}) {
        const double value = start + steps * ulp;
        for (const double beside : {std::nextafter(value, 0.0), value,
                                    std::nextafter(value, 2 * value)}) {
          SCOPED_TRACE(testing::Message() << info.name << " " << beside);
          if (beside != 0) ExpectPlain({-beside});
          ExpectPlain({beside, 1.0, -3.0});
        }
      }
    }
  }
}

TEST(MeasureFormats, LeavesOutWhatIsNotFinite) {
  const FormatErrors all = Measure({kNan, kInf, -kInf});
  EXPECT_EQ(all.numel, 3);
  EXPECT_EQ(all.finite, 0);
  EXPECT_TRUE(std::isnan(all.fp16) && std::isnan(all.e4m3));
  ExpectPlain({kNan, 1.1, kInf, -2.3, -kInf, 1e-7});
  EXPECT_EQ(Measure({kNan, 1e9}).fp16_overflow, 1);
}

TEST(MeasureFormats, OfNothingAndOfZeros) {
  const FormatErrors none = Measure({});
  EXPECT_EQ(none.numel, 0);
  EXPECT_TRUE(std::isnan(none.bf16));
  const FormatErrors zeros = Measure({0.0, -0.0, 0.0});
  EXPECT_EQ(zeros.finite, 3);
  EXPECT_EQ(zeros.fp16, 0);
  EXPECT_EQ(zeros.e4m3, 0);
  EXPECT_EQ(zeros.fp16_underflow, 0);
}

TEST(MeasureFormats, SaysNothingWhereSquaresLeaveTheRange) {
  EXPECT_TRUE(std::isnan(Measure({1e300, 1.0}).bf16));
  EXPECT_EQ(Measure({1e300, 1.0}).fp16_overflow, 1);
  EXPECT_TRUE(std::isnan(Measure({1e-300}).e5m2));
  EXPECT_TRUE(std::isnan(Measure({5e-324}).fp16));
}

// Beyond kMostRounded elements: counts and sizes are of all, errors near those of all.
TEST(MeasureFormats, ChoosesElementsOfLargeTensors) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  for (const int64_t size : {kMostRounded - 1, kMostRounded, kMostRounded + 1, kMostRounded + 9,
                             2 * kMostRounded + 3, int64_t{200'003}}) {
    SCOPED_TRACE(size);
    std::vector<double> values(static_cast<size_t>(size));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = normal(random) * (i % 4096 == 17 ? 50 : 1);  // a channel of outliers
    }
    values[values.size() / 3] = 1e5;
    const FormatErrors found = Measure(values);
    EXPECT_EQ(found.finite, size);
    EXPECT_EQ(found.fp16_overflow, 1);
    EXPECT_EQ(found.absmax, 1e5);
    const auto near = [](double got, double expected) {
      EXPECT_NEAR(got, expected, 0.1 * expected);
    };
    near(found.fp16, RoundPlainly(values, Format::kFp16, 0).relative());
    near(found.bf16, RoundPlainly(values, Format::kBf16, 0).relative());
    near(found.e4m3, BestPlainly(values, Format::kE4M3, -20, 20));
    near(found.e5m2, BestPlainly(values, Format::kE5M2, -20, 20));
    const FormatErrors again = Measure(values);
    ExpectSameBits(found.e4m3, again.e4m3);
  }
}

TEST(MeasureFormats, ReadsEveryDTypeAndLayout) {
  std::mt19937 random(7);
  for (const DType dtype : kAllDTypes) {
    const Stored stored = Store(dtype, Sample(0, 4 * 60 * 70, random));
    for (const Strided& layout : Layouts()) {
      SCOPED_TRACE(testing::Message() << DTypeName(dtype) << ", offset " << layout.offset);
      const char* const at = stored.memory.data() + layout.offset * ElementBytes(dtype);
      const FormatErrors found = MeasureFormats({at, dtype, layout.shape, layout.strides});
      const FormatErrors expected = Measure(Pick(layout, stored.values));
      EXPECT_EQ(found.numel, expected.numel);
      EXPECT_EQ(found.finite, expected.finite);
      EXPECT_NEAR(found.rms, expected.rms, 1e-12 * expected.rms);
      for (const auto column : {&FormatErrors::fp16, &FormatErrors::bf16, &FormatErrors::e4m3,
                                &FormatErrors::e5m2}) {
        if (!std::isnan(expected.*column)) ExpectSameBits(found.*column, expected.*column);
      }
    }
  }
  EXPECT_EQ(MeasureFormats({nullptr, DType::kUnknown, {}, {}}).numel, 0);
}

}  // namespace
}  // namespace mpnanny
