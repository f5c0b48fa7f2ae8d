#include "numerics/format_loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace mpnanny {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr Format kJudged[] = {Format::kFp16, Format::kBf16, Format::kTf32, Format::kE4M3,
                              Format::kE5M2};

TensorView ViewOf(const std::vector<double>& values, const std::vector<int64_t>& shape) {
  return {values.data(), DType::kFloat64, shape, {}, nullptr};
}

// Element by element, by the exact rounding of numerics/format.h.
FormatLoss Reference(const std::vector<double>& values, Format format, int scale) {
  FormatLoss found;
  const FormatInfo& info = Info(format);
  std::vector<double> errors;
  double lost = 0, kept = 0;
  found.numel = static_cast<int64_t>(values.size());
  for (const double value : values) {
    if (!std::isfinite(value) || value == 0) continue;
    ++found.nonzero;
    const double scaled = std::ldexp(value, scale);
    const double rounded = RoundTo(format, scaled);
    const double magnitude = std::fabs(rounded);
    if (std::fabs(scaled) > 0.9 * info.max) ++found.saturated;
    if (!std::isfinite(rounded)) {
      ++found.overflow;
      ++found.distorted;
      continue;
    }
    if (magnitude == 0) ++found.underflow;
    if (magnitude > 0 && magnitude < info.min_normal) ++found.subnormal;
    const double held = std::ldexp(rounded, -scale);
    errors.push_back(std::fabs(held - value) / std::fabs(value));
    if (errors.back() > info.epsilon / 2) ++found.distorted;
    lost += (held - value) * (held - value);
    kept += value * value;
  }
  if (errors.empty()) {
    found.mean_error = found.p99_error = found.max_error = found.sqnr_db = kNan;
    return found;
  }
  std::sort(errors.begin(), errors.end());
  double sum = 0;
  for (const double error : errors) sum += error;
  found.mean_error = sum / static_cast<double>(errors.size());
  found.max_error = errors.back();
  const double place = 0.99 * static_cast<double>(errors.size() - 1);
  const auto low = static_cast<size_t>(place);
  const double above = errors[std::min(low + 1, errors.size() - 1)];
  found.p99_error = errors[low] + (place - static_cast<double>(low)) * (above - errors[low]);
  found.sqnr_db = lost > 0 ? 10 * std::log10(kept / lost) : kInf;
  return found;
}

void ExpectNear(double measured, double expected) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(measured));
  } else if (std::isinf(expected)) {
    EXPECT_EQ(measured, expected);
  } else {
    EXPECT_NEAR(measured, expected, 1e-9 * std::max(1e-3, std::fabs(expected)));
  }
}

void ExpectSame(const FormatLoss& measured, const FormatLoss& expected) {
  EXPECT_EQ(measured.numel, expected.numel);
  EXPECT_EQ(measured.nonzero, expected.nonzero);
  EXPECT_EQ(measured.underflow, expected.underflow);
  EXPECT_EQ(measured.subnormal, expected.subnormal);
  EXPECT_EQ(measured.overflow, expected.overflow);
  EXPECT_EQ(measured.saturated, expected.saturated);
  EXPECT_EQ(measured.distorted, expected.distorted);
  ExpectNear(measured.mean_error, expected.mean_error);
  ExpectNear(measured.p99_error, expected.p99_error);
  ExpectNear(measured.max_error, expected.max_error);
  ExpectNear(measured.sqnr_db, expected.sqnr_db);
}

// The ends of every format, what lies just beside them, and what is no number.
std::vector<double> Corners() {
  std::vector<double> values = {0.0, -0.0, kNan, kInf, -kInf, 1e300, -1e300, 1e-300, 5e-324, 1.0};
  for (const Format format : kJudged) {
    const FormatInfo& info = Info(format);
    const double half = Ulp(format, info.max) / 2;
    for (const double at : {info.max, info.max + half, info.min_normal, info.min_subnormal,
                            info.min_subnormal / 2, info.min_normal - info.min_subnormal / 2}) {
      for (const double value : {at, std::nextafter(at, kInf), std::nextafter(at, 0.0)}) {
        values.push_back(value);
        values.push_back(-value);
      }
    }
  }
  return values;
}

TEST(FormatLoss, CornersAreCountedExactly) {
  const std::vector<double> values = Corners();
  const std::vector<int64_t> shape = {static_cast<int64_t>(values.size())};
  for (const Format format : kJudged) {
    SCOPED_TRACE(Info(format).name);
    ExpectSame(MeasureLoss(ViewOf(values, shape), format), Reference(values, format, 0));
  }
}

TEST(FormatLoss, RandomNumbersOfEveryMagnitudeAndScale) {
  std::mt19937_64 draw(7);
  std::uniform_real_distribution<double> exponent(-45, 45);
  std::normal_distribution<double> mantissa;
  std::vector<double> values(20'003);
  for (double& value : values) value = mantissa(draw) * std::pow(2.0, exponent(draw));
  const std::vector<int64_t> shape = {20'003};
  for (const Format format : kJudged) {
    for (const int scale : {0, 7, -13}) {
      SCOPED_TRACE(std::string(Info(format).name) + " " + std::to_string(scale));
      ExpectSame(MeasureLoss(ViewOf(values, shape), format, scale),
                 Reference(values, format, scale));
    }
  }
}

TEST(FormatLoss, OfNothingNothingIsKnown) {
  const std::vector<double> zeros = {0, 0, kNan, kInf};
  for (const std::vector<double>& values : {std::vector<double>{}, zeros}) {
    const std::vector<int64_t> shape = {static_cast<int64_t>(values.size())};
    const FormatLoss found = MeasureLoss(ViewOf(values, shape), Format::kFp16);
    EXPECT_EQ(found.nonzero, 0);
    EXPECT_TRUE(std::isnan(found.mean_error));
    EXPECT_TRUE(std::isnan(found.sqnr_db));
  }
  const double one = 0.1;
  const TensorView scalar{&one, DType::kFloat64, {}, {}, nullptr};
  EXPECT_EQ(MeasureLoss(scalar, Format::kBf16).nonzero, 1);
  EXPECT_TRUE(MeasureDimensions(scalar, Format::kBf16).empty());
}

TEST(FormatLoss, NonContiguousElementsAreTheOnesThatAreMeant) {
  std::vector<double> memory = {1, 1e9, 2, 1e9, 3, 1e9};
  const std::vector<int64_t> shape = {3};
  const std::vector<int64_t> strides = {2};
  const TensorView every_second{memory.data(), DType::kFloat64, shape, strides, nullptr};
  EXPECT_EQ(MeasureLoss(every_second, Format::kFp16).overflow, 0);
  EXPECT_EQ(MeasureDimensions(every_second, Format::kFp16)[0].sum_error, 0);
}

TEST(FormatLoss, TheBestScaleIsTheLargestThatFits) {
  for (const Format format : kJudged) {
    for (const double absmax : {1e-30, 3.0, 448.0, 449.0, 65504.0, 1e30}) {
      const int scale = BestScale(format, absmax);
      EXPECT_LE(std::ldexp(absmax, scale), Info(format).max);
      EXPECT_GT(std::ldexp(absmax, scale + 1), Info(format).max);
    }
  }
  EXPECT_EQ(BestScale(Format::kFp16, 0), 0);
  EXPECT_EQ(BestScale(Format::kFp16, kInf), 0);
}

TEST(FormatLoss, ARunningSumSwallowsWhatIsBelowHalfItsSpacing) {
  // 2048 + 1 + 1 + … stays 2048 in FP16: the ties go to even.
  std::vector<double> values(101, 1.0);
  values[0] = 2048;
  const std::vector<int64_t> shape = {101, 1};
  const auto found = MeasureDimensions(ViewOf(values, shape), Format::kFp16);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].size, 101);
  EXPECT_DOUBLE_EQ(found[0].imbalance, 2048);
  EXPECT_DOUBLE_EQ(found[0].absorbed, 100.0 / 101);
  EXPECT_DOUBLE_EQ(found[0].sum_error, 100.0 / 2148);
  EXPECT_EQ(found[0].norm_error, kInf);  // 2048² is beyond FP16
  EXPECT_EQ(found[1].absorbed, 0);
  EXPECT_EQ(found[1].sum_error, 0);
}

TEST(FormatLoss, DimensionsAreReducedWhereTheyLie) {
  std::vector<double> values(2 * 3 * 4);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) + 0.3;
  const std::vector<int64_t> shape = {2, 3, 4};
  const auto found = MeasureDimensions(ViewOf(values, shape), Format::kE4M3);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_DOUBLE_EQ(found[0].imbalance, 23.3 / 11.3);
  EXPECT_DOUBLE_EQ(found[1].imbalance, 23.3 / 15.3);
  EXPECT_DOUBLE_EQ(found[2].imbalance, 23.3 / 20.3);
  double lost = 0, kept = 0;
  for (int o = 0; o < 2; ++o) {
    for (int i = 0; i < 4; ++i) {
      double sum = 0, exact = 0;
      for (int k = 0; k < 3; ++k) {
        const double value = values[static_cast<size_t>((o * 3 + k) * 4 + i)];
        sum = RoundTo(Format::kE4M3, sum + RoundTo(Format::kE4M3, value));
        exact += value;
      }
      lost += (sum - exact) * (sum - exact);
      kept += exact * exact;
    }
  }
  EXPECT_NEAR(found[1].sum_error, std::sqrt(lost / kept), 1e-12);
}

}  // namespace
}  // namespace mpnanny
