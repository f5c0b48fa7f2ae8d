#include "tests/numerics/reference.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "numerics/format.h"

namespace mpnanny {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

}  // namespace

Reference Refer(const std::vector<double>& values) {
  Reference ref;
  long double sum = 0;
  for (double x : values) {
    if (std::isnan(x)) {
      ++ref.nan;
    } else if (std::isinf(x)) {
      ++(x > 0 ? ref.posinf : ref.neginf);
    } else {
      const long double magnitude = std::fabs(static_cast<long double>(x));
      if (ref.finite++ == 0) ref.min = ref.max = x;
      ref.min = std::min<long double>(ref.min, x);
      ref.max = std::max<long double>(ref.max, x);
      ref.absmax = std::max(ref.absmax, magnitude);
      if (x == 0) ++ref.zeros;
      if (x != 0 && (ref.absmin == 0 || magnitude < ref.absmin)) ref.absmin = magnitude;
      const double half = std::fabs(RoundTo(Format::kFp16, x));
      ref.below += x != 0 && half == 0;
      ref.subnormal += half != 0 && half < 0x1p-14;
      ref.above += std::isinf(half);
      ref.on_fp16 = ref.on_fp16 && RoundTo(Format::kFp16, x) == x;
      ref.on_bf16 = ref.on_bf16 && RoundTo(Format::kBf16, x) == x;
      ref.near += magnitude > static_cast<long double>(0.9f * 65504.0f);
      sum += x;
      ref.squares += magnitude * magnitude;
    }
  }
  if (ref.finite == 0) return ref;
  ref.mean = sum / ref.finite;
  for (double x : values) {
    if (std::isfinite(x)) ref.deviation += (x - ref.mean) * (x - ref.mean);
  }
  return ref;
}

namespace {

void ExpectClose(double got, long double expected, double scale, double tolerance,
                 const char* what) {
  EXPECT_LE(std::fabs(static_cast<long double>(got) - expected), tolerance * scale)
      << what << ": " << got << " for " << static_cast<double>(expected);
}

}  // namespace

void ExpectEqual(const TensorStats& got, const Reference& ref) {
  EXPECT_EQ(got.nan, ref.nan);
  EXPECT_EQ(got.posinf, ref.posinf);
  EXPECT_EQ(got.neginf, ref.neginf);
  EXPECT_EQ(got.zeros, ref.zeros);
  EXPECT_EQ(got.finite, ref.finite);
  EXPECT_EQ(got.below_fp16, ref.below);
  EXPECT_EQ(got.subnormal_fp16, ref.subnormal);
  EXPECT_EQ(got.above_fp16, ref.above);
  EXPECT_EQ(got.near_fp16_max, ref.near);
  if (!got.grid_unknown) {
    EXPECT_EQ(got.on_fp16(), ref.on_fp16);
    EXPECT_EQ(got.on_bf16(), ref.on_bf16);
  }
  if (ref.finite == 0) return;
  EXPECT_EQ(got.min, static_cast<double>(ref.min));
  EXPECT_EQ(got.max, static_cast<double>(ref.max));
  EXPECT_EQ(got.absmax, static_cast<double>(ref.absmax));
  EXPECT_EQ(got.absmin, static_cast<double>(ref.absmin));
  const auto absmax = static_cast<double>(ref.absmax);
  constexpr double kBound = 1e-11;  // as tensor_stats.h promises
  const auto squares = static_cast<double>(ref.squares);
  const auto deviation = static_cast<double>(ref.deviation);
  ExpectClose(got.mean, ref.mean, absmax, kBound, "mean");
  ExpectClose(got.squares, ref.squares, squares, kBound, "squares");
  ExpectClose(got.squared_deviation, ref.deviation, deviation, kBound, "squared deviation");
  const auto n = static_cast<double>(ref.finite);
  ExpectClose(got.rms(), std::sqrt(squares / n), std::sqrt(squares / n), kBound, "rms");
  ExpectClose(got.l2(), std::sqrt(squares), std::sqrt(squares), kBound, "l2");
  ExpectClose(got.std(), std::sqrt(deviation / n), std::sqrt(deviation / n), kBound, "std");
}

void ExpectAll(const TensorView& view, const std::vector<double>& values) {
  const Reference ref = Refer(values);
  ExponentHistogram expected{};
  for (double x : values) {
    const float rounded = static_cast<float>(x);
    const int field = rounded == 0 ? 0 : std::isfinite(rounded) ? std::ilogb(rounded) + 127 : 255;
    const int clamped = field == 255 && std::isfinite(x) ? 254 : std::max(field, 0);
    ++expected[static_cast<size_t>(clamped)];
  }
  ExponentHistogram counts;
  counts.fill(-1);
  const TensorStats got = ComputeStats(view, &counts);
  EXPECT_EQ(got.numel, static_cast<int64_t>(values.size()));
  ExpectEqual(got, ref);
  EXPECT_EQ(counts, expected);
  EXPECT_EQ(CountExponents(view), expected);
  const TensorStats alone = ComputeStats(view);
  ExpectSameCounts(alone, got);
  EXPECT_EQ(alone.squares, got.squares);
  EXPECT_EQ(HasNonFinite(view), ref.nan + ref.posinf + ref.neginf > 0);
  const double squares = SumOfSquares(view);
  EXPECT_EQ(std::isfinite(squares), ref.finite == static_cast<int64_t>(values.size()));
  if (std::isfinite(squares)) {
    EXPECT_NEAR(squares, static_cast<double>(ref.squares),
                1e-11 * static_cast<double>(ref.squares));
  }
}

void ExpectSameCounts(const TensorStats& got, const TensorStats& expected) {
  EXPECT_EQ(got.numel, expected.numel);
  EXPECT_EQ(got.finite, expected.finite);
  EXPECT_EQ(got.nan, expected.nan);
  EXPECT_EQ(got.posinf, expected.posinf);
  EXPECT_EQ(got.neginf, expected.neginf);
  EXPECT_EQ(got.zeros, expected.zeros);
  EXPECT_EQ(got.below_fp16, expected.below_fp16);
  EXPECT_EQ(got.subnormal_fp16, expected.subnormal_fp16);
  EXPECT_EQ(got.above_fp16, expected.above_fp16);
  EXPECT_EQ(got.near_fp16_max, expected.near_fp16_max);
  for (const auto& [a, b] :
       {std::pair(got.min, expected.min), std::pair(got.max, expected.max),
        std::pair(got.absmax, expected.absmax), std::pair(got.absmin, expected.absmin)}) {
    EXPECT_EQ(std::bit_cast<uint64_t>(a), std::bit_cast<uint64_t>(b)) << a << " for " << b;
  }
}

std::vector<float> Sample(int kind, size_t size, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i) {
    const float x = normal(random);
    switch (kind) {
      case 0:
        values[i] = x;
        break;
      case 1:
        values[i] = std::max(x, 0.0f);
        break;  // half zeros
      case 2:
        values[i] = 1e30f * x;
        break;  // squares overflow FP32
      case 3:
        values[i] = 1e-30f * x;
        break;  // squares underflow FP32
      case 4:
        values[i] = 1000.0f + 0.029f * x;
        break;  // cancellation
      case 5:
        values[i] = 3e-8f * x;
        break;  // around FP16's subnormals
      case 6:
        values[i] = 65504.0f + 30.0f * x;
        break;  // around its maximum
      case 7:
        values[i] = std::ldexp(x, static_cast<int>(random() % 280) - 150);
        break;
      case 8:
        values[i] = -std::fabs(x);
        break;  // nothing above 0
      case 9:
        values[i] = random() % 64 == 0 ? x : random() % 2 == 0 ? -0.0f : 0.0f;
        break;
      case 10:
        values[i] = std::bit_cast<float>(static_cast<uint32_t>(random()) & 0x807fffffu);
        break;  // FP32's own subnormals
      default: {
        const uint32_t what = random() % 16;
        values[i] = what == 0 ? kNan : what == 1 ? kInf : what == 2 ? -kInf : what == 3 ? 0.0f : x;
      }
    }
  }
  return values;
}

namespace {

struct Bits {
  int exponent, mantissa;
  bool infinities;
};
Bits BitsOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return {5, 10, true};
    case DType::kBFloat16:
      return {8, 7, true};
    case DType::kFloat8E4M3:
      return {4, 3, false};
    case DType::kFloat8E5M2:
      return {5, 2, true};
    case DType::kFloat64:
      return {11, 52, true};
    default:
      return {8, 23, true};
  }
}

}  // namespace

double Decode(DType dtype, const char* element) {
  uint64_t bits = 0;
  std::memcpy(&bits, element, static_cast<size_t>(ElementBytes(dtype)));
  const Bits format = BitsOf(dtype);
  const uint64_t mantissa = bits & ((uint64_t{1} << format.mantissa) - 1);
  const int top = (1 << format.exponent) - 1, bias = top / 2;
  const int exponent = static_cast<int>(bits >> format.mantissa) & top;
  const double sign = bits >> (format.exponent + format.mantissa) != 0 ? -1 : 1;
  if (exponent == top && format.infinities)
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  if (exponent == top && mantissa == (uint64_t{1} << format.mantissa) - 1)
    return std::numeric_limits<double>::quiet_NaN();
  const auto whole =
      static_cast<double>(mantissa + (exponent > 0 ? uint64_t{1} << format.mantissa : 0));
  return sign * std::ldexp(whole, std::max(exponent, 1) - bias - format.mantissa);
}

Stored Store(DType dtype, const std::vector<float>& values) {
  const auto bytes = static_cast<size_t>(ElementBytes(dtype));
  const Bits format = BitsOf(dtype);
  Stored stored;
  stored.memory.resize(values.size() * bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = static_cast<double>(values[i]) / (dtype == DType::kFloat64 ? 3 : 1);
    uint64_t bits = std::bit_cast<uint64_t>(value);
    if (dtype == DType::kFloat32) bits = std::bit_cast<uint32_t>(values[i]);
    if (bytes < 4) {
      const uint64_t top = (uint64_t{1} << format.exponent) - 1;
      const uint64_t sign = uint64_t{std::signbit(value)} << (format.exponent + format.mantissa);
      const auto bias = static_cast<int>(top / 2);
      const auto exponent = std::isfinite(value) && value != 0 ? std::ilogb(value) + bias : 0;
      if (std::isnan(value)) {
        bits = (uint64_t{1} << (format.exponent + format.mantissa)) - 1;
      } else if (std::isinf(value) || exponent >= static_cast<int>(top)) {
        bits = top << format.mantissa | (format.infinities ? 0 : 2);
      } else if (exponent < 1) {
        bits = static_cast<uint64_t>(std::ldexp(std::fabs(value), bias - 1 + format.mantissa));
      } else {
        bits = std::bit_cast<uint64_t>(value) << 12 >> (64 - format.mantissa) |
               static_cast<uint64_t>(exponent) << format.mantissa;
      }
      bits |= sign;
    }
    std::memcpy(&stored.memory[i * bytes], &bits, bytes);
    stored.values.push_back(Decode(dtype, &stored.memory[i * bytes]));
  }
  return stored;
}

}  // namespace mpnanny
