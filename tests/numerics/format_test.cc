#include "numerics/format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace mpnanny {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Info, HoldsThePublishedLimits) {
  EXPECT_EQ(Info(Format::kFp32).max, std::numeric_limits<float>::max());
  EXPECT_EQ(Info(Format::kFp32).min_normal, std::numeric_limits<float>::min());
  EXPECT_EQ(Info(Format::kFp32).min_subnormal, std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(Info(Format::kFp16).max, 65504);
  EXPECT_DOUBLE_EQ(Info(Format::kFp16).min_normal, 6.103515625e-05);
  EXPECT_DOUBLE_EQ(Info(Format::kFp16).min_subnormal, 5.960464477539063e-08);
  EXPECT_NEAR(Info(Format::kBf16).max, 3.3895e38, 1e34);
  EXPECT_NEAR(Info(Format::kBf16).min_normal, 1.1755e-38, 1e-42);
  EXPECT_NEAR(Info(Format::kBf16).min_subnormal, 9.1835e-41, 1e-44);
  EXPECT_EQ(Info(Format::kE4M3).max, 448);
  EXPECT_EQ(Info(Format::kE4M3).min_normal, 0x1p-6);
  EXPECT_EQ(Info(Format::kE4M3).min_subnormal, 0x1p-9);
  EXPECT_EQ(Info(Format::kE5M2).max, 57344);
  EXPECT_EQ(Info(Format::kE5M2).min_subnormal, 0x1p-16);
  EXPECT_EQ(Info(Format::kTf32).epsilon, 0x1p-10);
  for (Format format : kAllFormats) {
    EXPECT_EQ(FormatFromName(Info(format).name), format);
    EXPECT_EQ(FormatFromName(Info(format).torch_name), format);
  }
  EXPECT_EQ(FormatFromName("half"), std::nullopt);
}

TEST(RoundTo, TiesGoToEvenAndTheBordersAreExact) {
  EXPECT_EQ(RoundTo(Format::kFp16, 65519.9), 65504);
  EXPECT_EQ(RoundTo(Format::kFp16, 65520), kInfinity);
  EXPECT_EQ(RoundTo(Format::kFp16, -65520), -kInfinity);
  EXPECT_EQ(RoundTo(Format::kFp16, 2049), 2048);
  EXPECT_EQ(RoundTo(Format::kFp16, 2051), 2052);
  EXPECT_EQ(RoundTo(Format::kFp16, 0x1p-25), 0);
  EXPECT_EQ(RoundTo(Format::kFp16, std::nextafter(0x1p-25, 1)), 0x1p-24);
  EXPECT_TRUE(std::signbit(RoundTo(Format::kFp16, -0x1p-30)));
  EXPECT_EQ(RoundTo(Format::kE4M3, 464), 448);
  EXPECT_TRUE(std::isnan(RoundTo(Format::kE4M3, 464.1)));
  EXPECT_TRUE(std::isnan(RoundTo(Format::kE4M3, kInfinity)));
  EXPECT_EQ(RoundTo(Format::kE5M2, 61440), kInfinity);
  EXPECT_EQ(RoundTo(Format::kE5M2, 61439), 57344);
  EXPECT_EQ(RoundTo(Format::kBf16, 1.00390625), 1);
  EXPECT_TRUE(std::isnan(RoundTo(Format::kBf16, std::nan(""))));
}

TEST(RoundTo, Fp32IsTheHardwaresConversion) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200'000; ++i) {
    const auto value = std::ldexp(1.0 + static_cast<double>(random()) * 0x1p-64,
                                  static_cast<int>(random() % 300) - 160);
    ASSERT_EQ(RoundTo(Format::kFp32, value), static_cast<double>(static_cast<float>(value)))
        << value;
  }
}

// Every representable value must be a fixed point, and what lies between two neighbours must go to
// the nearer one (to the one whose code is even in the middle). That determines the rounding
// without a second implementation of it.
void CheckAllNeighbours(Format format, const std::vector<double>& ascending) {
  for (size_t i = 0; i < ascending.size(); ++i) {
    ASSERT_EQ(RoundTo(format, ascending[i]), ascending[i]);
    if (i + 1 == ascending.size()) break;
    const double low = ascending[i], high = ascending[i + 1], middle = low + (high - low) / 2;
    ASSERT_EQ(RoundTo(format, std::nextafter(middle, low)), low);
    ASSERT_EQ(RoundTo(format, std::nextafter(middle, high)), high);
    ASSERT_EQ(RoundTo(format, middle), i % 2 == 0 ? low : high);
    ASSERT_EQ(Ulp(format, low), high - low);
  }
}

TEST(RoundTo, IsRightBetweenAllNeighbours) {
  std::vector<double> fp16, bf16, e4m3, e5m2;
  for (uint32_t bits = 0; bits < 0x7c00; ++bits)
    fp16.push_back(Fp16ToFloat(static_cast<uint16_t>(bits)));
  for (uint32_t bits = 0; bits < 0x7f80; ++bits)
    bf16.push_back(Bf16ToFloat(static_cast<uint16_t>(bits)));
  for (uint32_t bits = 0; bits < 0x7f; ++bits)
    e4m3.push_back(E4M3ToFloat(static_cast<uint8_t>(bits)));
  for (uint32_t bits = 0; bits < 0x7c; ++bits)
    e5m2.push_back(E5M2ToFloat(static_cast<uint8_t>(bits)));
  CheckAllNeighbours(Format::kFp16, fp16);
  CheckAllNeighbours(Format::kBf16, bf16);
  CheckAllNeighbours(Format::kE4M3, e4m3);
  CheckAllNeighbours(Format::kE5M2, e5m2);
}

TEST(Decode, SpecialCodes) {
  EXPECT_EQ(Fp16ToFloat(0x3c00), 1.0f);
  EXPECT_EQ(Fp16ToFloat(0xfbff), -65504.0f);
  EXPECT_EQ(Fp16ToFloat(0xfc00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(Fp16ToFloat(0x7c01)));
  EXPECT_EQ(E4M3ToFloat(0x7e), 448.0f);
  EXPECT_TRUE(std::isnan(E4M3ToFloat(0xff)));
  EXPECT_EQ(E4M3ToFloat(0x38), 1.0f);
  EXPECT_EQ(E5M2ToFloat(0x7c), std::numeric_limits<float>::infinity());
  EXPECT_EQ(Bf16ToFloat(0x3f80), 1.0f);
}

TEST(Ulp, IsNaNWhereThereIsNone) {
  EXPECT_TRUE(std::isnan(Ulp(Format::kFp16, 70000)));
  EXPECT_TRUE(std::isnan(Ulp(Format::kFp16, kInfinity)));
  EXPECT_EQ(Ulp(Format::kFp16, 0), 0x1p-24);
  EXPECT_EQ(Ulp(Format::kFp16, -1), 0x1p-10);
}

}  // namespace
}  // namespace mpnanny
