#include "tests/numerics/plain_comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace mpnanny {

double LargestOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 65504;
    case DType::kBFloat16:
      return 0x1.fep127;
    case DType::kFloat32:
      return 0x1.fffffep127;
    case DType::kFloat8E4M3:
      return 448;
    case DType::kFloat8E5M2:
      return 57344;
    default:
      return std::numeric_limits<double>::infinity();
  }
}

Plain Refer(DType dtype, const std::vector<double>& held, const std::vector<double>& reference) {
  Plain plain;
  for (size_t i = 0; i < held.size(); ++i) {
    const double h = held[i], r = reference[i];
    if (std::isfinite(r)) {
      plain.nonzero += r != 0;
      plain.max_reference = std::max(plain.max_reference, std::fabs(r));
      if (!std::isfinite(h)) ++plain.range;
    } else if (std::isfinite(h)) {
      ++plain.reference_only;
    } else {
      ++(std::isnan(r) ? plain.undefined : plain.infinite);
    }
    if (!std::isfinite(h) || !std::isfinite(r)) continue;
    ++plain.finite;
    const double error = std::fabs(h - r);
    plain.squared_error += static_cast<long double>(error) * error;
    plain.squared_reference += static_cast<long double>(r) * r;
    plain.max_error = std::max(plain.max_error, error);
    plain.max_held = std::max(plain.max_held, std::fabs(h));
    if (r != 0 && h == 0) {
      ++plain.flushed;
      plain.squared_flushed += static_cast<long double>(r) * r;
    }
    if (std::trunc(r) == r) {
      ++plain.whole;
      plain.wrong_integers += h != r;
    }
    plain.clipped += std::fabs(h) == LargestOf(dtype) && std::fabs(r) > LargestOf(dtype);
  }
  return plain;
}

void ExpectSum(double got, long double expected, const char* what) {
  EXPECT_LE(std::fabs(got - expected), 1e-12L * expected + 1e-300L)
      << what << ": " << got << " for " << static_cast<double>(expected);
}

void ExpectEqual(const ReferenceError& got, const Plain& plain, size_t numel) {
  EXPECT_EQ(got.numel, static_cast<int64_t>(numel));
  EXPECT_EQ(got.range, plain.range);
  EXPECT_EQ(got.undefined, plain.undefined);
  EXPECT_EQ(got.infinite, plain.infinite);
  EXPECT_EQ(got.reference_only, plain.reference_only);
  EXPECT_EQ(got.nonfinite(), plain.range + plain.undefined + plain.infinite);
  EXPECT_EQ(got.nonzero, plain.nonzero);
  EXPECT_EQ(got.flushed, plain.flushed);
  EXPECT_EQ(got.wrong_integers, plain.wrong_integers);
  EXPECT_EQ(got.clipped, plain.clipped);
  EXPECT_EQ(got.integers, plain.finite > 0 && plain.whole == plain.finite);
  ExpectSum(got.squared_error, plain.squared_error, "squared error");
  ExpectSum(got.squared_reference, plain.squared_reference, "squared reference");
  ExpectSum(got.squared_flushed, plain.squared_flushed, "squared flushed");
  EXPECT_EQ(got.max_error, plain.max_error);
  EXPECT_EQ(got.max_reference, plain.max_reference);
  EXPECT_EQ(got.max_held, plain.max_held);
}

void ExpectSameBits(double got, double expected) {
  EXPECT_EQ(std::bit_cast<uint64_t>(got), std::bit_cast<uint64_t>(expected))
      << got << " for " << expected;
}

void ExpectSameBits(const ReferenceError& got, const ReferenceError& expected) {
  EXPECT_EQ(got.numel, expected.numel);
  EXPECT_EQ(got.range, expected.range);
  EXPECT_EQ(got.undefined, expected.undefined);
  EXPECT_EQ(got.infinite, expected.infinite);
  EXPECT_EQ(got.reference_only, expected.reference_only);
  EXPECT_EQ(got.nonzero, expected.nonzero);
  EXPECT_EQ(got.flushed, expected.flushed);
  EXPECT_EQ(got.wrong_integers, expected.wrong_integers);
  EXPECT_EQ(got.clipped, expected.clipped);
  EXPECT_EQ(got.integers, expected.integers);
  ExpectSameBits(got.squared_error, expected.squared_error);
  ExpectSameBits(got.squared_reference, expected.squared_reference);
  ExpectSameBits(got.squared_flushed, expected.squared_flushed);
  ExpectSameBits(got.max_error, expected.max_error);
  ExpectSameBits(got.max_reference, expected.max_reference);
  ExpectSameBits(got.max_held, expected.max_held);
}

TensorView View(const std::vector<double>& values, const std::vector<int64_t>& shape) {
  return {values.data(), DType::kFloat64, shape, {}};
}

std::vector<double> References(const std::vector<double>& held, std::mt19937& random) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> references;
  for (const double h : held) {
    switch (random() % 12) {
      case 0:
        references.push_back(std::nan(""));
        break;
      case 1:
        references.push_back(random() % 2 == 0 ? kInfinity : -kInfinity);
        break;
      case 2:
        references.push_back(0);
        break;
      case 3:
        references.push_back(std::ldexp(1.5, -1000));  // far below every format but FP64
        break;
      case 4:
        references.push_back(std::round(std::isfinite(h) ? h : 7));
        break;
      case 5:
        references.push_back(1e40 * (random() % 2 == 0 ? 1 : -1));
        break;
      case 6:
        references.push_back(h);
        break;
      default:
        references.push_back((std::isfinite(h) ? h : 3) *
                                 (1 + 1e-3 * static_cast<double>(random() % 100)) +
                             1e-9);
    }
  }
  return references;
}

std::vector<Strided> Layouts() {
  return {{0, {4, 60, 70}, {4200, 70, 1}},
          {0, {70, 60, 4}, {1, 70, 4200}},
          {3, {4, 20, 35}, {4200, 210, 2}},
          {0, {5, 60, 70}, {0, 70, 1}},
          {0, {3, 70, 2, 60}, {0, 1, 0, 70}},
          {4199, {60, 70}, {-70, -1}},
          {16'799, {8000}, {-2}},
          {7, {1, 60, 1, 9}, {99, 70, 3, 1}},
          {11, {}, {}},
          {12, {4099}, {0}},
          {0, {5000, 3}, {1, 1}},
          {5, {3, 4096}, {4099, 1}},
          {5, {4096, 3}, {1, 4099}},
          {9, {13, 7, 31}, {217, 1, 7}}};
}

std::vector<double> Pick(const Strided& layout, const std::vector<double>& values) {
  int64_t total = 1;
  for (const int64_t size : layout.shape) total *= size;
  std::vector<double> picked;
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i, at = layout.offset;
    for (size_t dim = layout.shape.size(); dim-- > 0; rest /= layout.shape[dim])
      at += rest % layout.shape[dim] * layout.strides[dim];
    picked.push_back(values.at(static_cast<size_t>(at)));
  }
  return picked;
}

std::vector<char> Contiguous(DType dtype, const Strided& layout, const Stored& stored) {
  std::vector<double> places(stored.values.size());
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<double>(i);
  const auto bytes = static_cast<size_t>(ElementBytes(dtype));
  std::vector<char> memory;
  for (const double place : Pick(layout, places)) {
    const char* const from = stored.memory.data() + static_cast<size_t>(place) * bytes;
    memory.insert(memory.end(), from, from + bytes);
  }
  return memory;
}

}  // namespace mpnanny
