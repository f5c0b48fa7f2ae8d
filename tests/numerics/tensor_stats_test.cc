#include "numerics/tensor_stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "numerics/format.h"

namespace mpnanny {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// The independent reference: two passes in long double over decoded values, formats judged by
// RoundTo.
struct Reference {
  int64_t nan = 0, posinf = 0, neginf = 0, zeros = 0, finite = 0, below = 0, subnormal = 0,
          above = 0;
  long double min = 0, max = 0, absmax = 0, absmin = 0, mean = 0, deviation = 0, squares = 0;
};

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

void ExpectClose(double got, long double expected, double scale, double tolerance,
                 const char* what) {
  EXPECT_LE(std::fabs(static_cast<long double>(got) - expected), tolerance * scale)
      << what << ": " << got << " for " << static_cast<double>(expected);
}

void ExpectEqual(const TensorStats& got, const Reference& ref) {
  EXPECT_EQ(got.nan, ref.nan);
  EXPECT_EQ(got.posinf, ref.posinf);
  EXPECT_EQ(got.neginf, ref.neginf);
  EXPECT_EQ(got.zeros, ref.zeros);
  EXPECT_EQ(got.finite, ref.finite);
  EXPECT_EQ(got.below_fp16, ref.below);
  EXPECT_EQ(got.subnormal_fp16, ref.subnormal);
  EXPECT_EQ(got.above_fp16, ref.above);
  if (ref.finite == 0) return;
  EXPECT_EQ(got.min, static_cast<double>(ref.min));
  EXPECT_EQ(got.max, static_cast<double>(ref.max));
  EXPECT_EQ(got.absmax, static_cast<double>(ref.absmax));
  EXPECT_EQ(got.absmin, static_cast<double>(ref.absmin));
  const long double std = std::sqrt(ref.deviation / ref.finite),
                    rms = std::sqrt(ref.squares / ref.finite);
  ExpectClose(got.mean, ref.mean, static_cast<double>(ref.absmax), 1e-12, "mean");
  ExpectClose(got.rms(), rms, static_cast<double>(rms), 1e-12, "rms");
  ExpectClose(got.l2(), std::sqrt(ref.squares), static_cast<double>(std::sqrt(ref.squares)), 1e-12,
              "l2");
  ExpectClose(got.std(), std, static_cast<double>(std), 1e-6, "std");
}

std::vector<uint16_t> ToBf16(const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  for (float x : values) {
    uint32_t word;
    std::memcpy(&word, &x, 4);
    bits.push_back(static_cast<uint16_t>(word >> 16));  // truncation: any value will do
  }
  return bits;
}

// Data of every kind that a tensor meets.
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
      default: {
        const uint32_t what = random() % 16;
        values[i] = what == 0 ? kNan : what == 1 ? kInf : what == 2 ? -kInf : what == 3 ? 0.0f : x;
      }
    }
  }
  return values;
}
constexpr int kKinds = 9;

TEST(ComputeStats, EqualsTheReferenceForEverySizeAndKind) {
  std::mt19937 random(1);
  for (const size_t size : {0, 1, 2, 3, 7, 8, 9, 31, 1023, 1024, 1025, 2048, 5000, 100'003}) {
    for (int kind = 0; kind < kKinds; ++kind) {
      SCOPED_TRACE(testing::Message() << "size " << size << " kind " << kind);
      const std::vector<float> values = Sample(kind, size, random);
      const int64_t shape[] = {static_cast<int64_t>(size)};
      const TensorStats got = ComputeStats({values.data(), DType::kFloat32, shape, {}});
      EXPECT_EQ(got.numel, static_cast<int64_t>(size));
      ExpectEqual(got, Refer({values.begin(), values.end()}));
      EXPECT_EQ(HasNonFinite({values.data(), DType::kFloat32, shape, {}}), got.nonfinite() > 0);
    }
  }
}

TEST(ComputeStats, SmallSpreadAroundALargeMean) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (const auto& [mean, spread] : {std::pair(1000.0, 0.05), std::pair(1e4, 1e-2)}) {
    std::vector<float> values(1 << 20);
    for (float& x : values) x = static_cast<float>(mean + spread * uniform(random));
    const int64_t shape[] = {1 << 20};
    ExpectEqual(ComputeStats({values.data(), DType::kFloat32, shape, {}}),
                Refer({values.begin(), values.end()}));
  }
}

TEST(ComputeStats, AnOutlierInFrontDoesNotSpoilTheShift) {
  std::vector<float> values(50'000, 1.0f);
  for (size_t i = 0; i < values.size(); ++i) values[i] += 1e-3f * static_cast<float>(i % 7);
  values[0] = 1e6f;
  const int64_t shape[] = {50'000};
  ExpectEqual(ComputeStats({values.data(), DType::kFloat32, shape, {}}),
              Refer({values.begin(), values.end()}));
}

TEST(ComputeStats, EveryDTypeIsDecoded) {
  std::mt19937 random(3);
  std::vector<uint16_t> halves(70'000);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);  // every code
  const int64_t shape[] = {70'000};
  std::vector<double> decoded;
  for (uint16_t bits : halves) decoded.push_back(Fp16ToFloat(bits));
  ExpectEqual(ComputeStats({halves.data(), DType::kFloat16, shape, {}}), Refer(decoded));
  decoded.clear();
  for (uint16_t bits : halves) decoded.push_back(Bf16ToFloat(bits));
  ExpectEqual(ComputeStats({halves.data(), DType::kBFloat16, shape, {}}), Refer(decoded));

  std::vector<uint8_t> bytes(256);
  for (size_t i = 0; i < 256; ++i) bytes[i] = static_cast<uint8_t>(i);
  const int64_t all[] = {256};
  decoded.clear();
  for (uint8_t bits : bytes) decoded.push_back(E4M3ToFloat(bits));
  ExpectEqual(ComputeStats({bytes.data(), DType::kFloat8E4M3, all, {}}), Refer(decoded));
  decoded.clear();
  for (uint8_t bits : bytes) decoded.push_back(E5M2ToFloat(bits));
  ExpectEqual(ComputeStats({bytes.data(), DType::kFloat8E5M2, all, {}}), Refer(decoded));

  std::vector<double> doubles;
  for (float x : Sample(8, 3000, random)) doubles.push_back(static_cast<double>(x) / 3);
  doubles[5] = 1e100;
  doubles[6] = 5e-324;
  const int64_t count[] = {3000};
  ExpectEqual(ComputeStats({doubles.data(), DType::kFloat64, count, {}}), Refer(doubles));
}

TEST(ComputeStats, StridedLayoutsAreReadInPlace) {
  std::mt19937 random(4);
  std::vector<float> memory = Sample(8, 4 * 60 * 70, random);
  // Transposed, sliced with steps, broadcast, reversed, with dimensions of one, empty.
  struct Case {
    int64_t offset;
    std::vector<int64_t> shape, strides;
  };
  const Case cases[] = {{0, {70, 60, 4}, {1, 70, 4200}},
                        {3, {4, 20, 35}, {4200, 210, 2}},
                        {0, {5, 60, 70}, {0, 70, 1}},
                        {4199, {60, 70}, {-70, -1}},
                        {7, {1, 60, 1, 9}, {99, 70, 3, 1}},
                        {0, {60, 0, 70}, {70, 70, 1}},
                        {11, {}, {}},
                        {0, {4, 60, 70}, {}}};
  for (const Case& each : cases) {
    std::vector<double> picked;
    std::vector<int64_t> strides = each.strides;
    if (strides.empty()) {
      strides.resize(each.shape.size());
      int64_t step = 1;
      for (size_t i = strides.size(); i-- > 0; step *= each.shape[i]) strides[i] = step;
    }
    int64_t total = 1;
    for (int64_t n : each.shape) total *= n;
    for (int64_t i = 0; i < total; ++i) {
      int64_t rest = i, at = each.offset;
      for (size_t d = each.shape.size(); d-- > 0; rest /= each.shape[d])
        at += rest % each.shape[d] * strides[d];
      picked.push_back(memory[static_cast<size_t>(at)]);
    }
    const TensorView view{memory.data() + each.offset, DType::kFloat32, each.shape, each.strides};
    SCOPED_TRACE(testing::Message() << "offset " << each.offset << ", " << total << " elements");
    const Reference ref = Refer(picked);
    ExpectEqual(ComputeStats(view), ref);
    EXPECT_EQ(HasNonFinite(view), ref.nan + ref.posinf + ref.neginf > 0);

    const std::vector<uint16_t> halves = ToBf16(memory);
    std::vector<double> decoded;
    for (int64_t i = 0; i < total; ++i) {
      int64_t rest = i, at = each.offset;
      for (size_t d = each.shape.size(); d-- > 0; rest /= each.shape[d])
        at += rest % each.shape[d] * strides[d];
      decoded.push_back(Bf16ToFloat(halves[static_cast<size_t>(at)]));
    }
    const TensorView half{halves.data() + each.offset, DType::kBFloat16, each.shape, each.strides};
    const Reference half_ref = Refer(decoded);
    ExpectEqual(ComputeStats(half), half_ref);
    EXPECT_EQ(HasNonFinite(half), half_ref.nan + half_ref.posinf + half_ref.neginf > 0);
  }
}

TEST(Merge, OfPartsIsTheWhole) {
  std::mt19937 random(5);
  for (int kind = 0; kind < kKinds; ++kind) {
    SCOPED_TRACE(kind);
    const std::vector<float> values = Sample(kind, 10'000, random);
    TensorStats merged;
    for (size_t from = 0; from < values.size();) {
      const size_t size = std::min<size_t>(1 + random() % 3000, values.size() - from);
      const int64_t shape[] = {static_cast<int64_t>(size)};
      Merge(merged, ComputeStats({values.data() + from, DType::kFloat32, shape, {}}));
      from += size;
    }
    ExpectEqual(merged, Refer({values.begin(), values.end()}));
  }
}

TEST(Scaled, IsTheStatisticsOfScaledValues) {
  std::mt19937 random(6);
  const std::vector<float> values = Sample(0, 999, random);
  const int64_t shape[] = {999};
  const TensorStats scaled =
      Scaled(ComputeStats({values.data(), DType::kFloat32, shape, {}}), -0.25);
  std::vector<double> expected;
  for (float x : values) expected.push_back(-0.25 * static_cast<double>(x));
  const Reference ref = Refer(expected);
  EXPECT_EQ(scaled.min, static_cast<double>(ref.min));
  EXPECT_EQ(scaled.max, static_cast<double>(ref.max));
  EXPECT_EQ(scaled.absmin, static_cast<double>(ref.absmin));
  EXPECT_NEAR(scaled.std(), static_cast<double>(std::sqrt(ref.deviation / 999)), 1e-9);
}

TEST(SumOfSquares, IsFiniteExactlyIfEveryElementIs) {
  std::mt19937 random(7);
  for (int kind = 0; kind < kKinds; ++kind) {
    const std::vector<float> values = Sample(kind, 4099, random);
    const int64_t shape[] = {4099};
    const TensorView view{values.data(), DType::kFloat32, shape, {}};
    const TensorStats stats = ComputeStats(view);
    const double squares = SumOfSquares(view);
    EXPECT_EQ(std::isfinite(squares), stats.nonfinite() == 0);
    if (std::isfinite(squares)) {
      EXPECT_NEAR(squares, stats.squares, 1e-12 * stats.squares);
    }
  }
}

TEST(CountExponents, CountsEveryElementOnce) {
  std::mt19937 random(8);
  const std::vector<float> values = Sample(8, 12'345, random);
  const int64_t shape[] = {12'345};
  const ExponentHistogram counts = CountExponents({values.data(), DType::kFloat32, shape, {}});
  ExponentHistogram expected{};
  for (float x : values) {
    const int exponent = x == 0 ? 0 : !std::isfinite(x) ? 255 : std::ilogb(x) + 127;
    ++expected[static_cast<size_t>(exponent)];
  }
  EXPECT_EQ(counts, expected);
  const double huge[] = {1e300, -1e300, 1e-300, 1.0, std::nan("")};
  const int64_t five[] = {5};
  const ExponentHistogram clamped = CountExponents({huge, DType::kFloat64, five, {}});
  EXPECT_EQ(clamped[254], 2);
  EXPECT_EQ(clamped[0], 1);
  EXPECT_EQ(clamped[127], 1);
  EXPECT_EQ(clamped[255], 1);
}

}  // namespace
}  // namespace mpnanny
