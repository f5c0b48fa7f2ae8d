#include "numerics/reference_error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tests/numerics/plain_comparison.h"

namespace mpnanny {
namespace {

const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInf = std::numeric_limits<float>::infinity();

ReferenceError CompareAll(const Stored& held, DType dtype, const std::vector<double>& reference) {
  const std::vector<int64_t> shape = {static_cast<int64_t>(reference.size())};
  return CompareWithReference({held.memory.data(), dtype, shape, {}}, View(reference, shape));
}

TEST(CompareWithReference, AgreesWithAPlainLoopForEveryDType) {
  std::mt19937 random(11);
  for (const DType dtype : kAllDTypes) {
    for (int kind = 0; kind < kKinds; ++kind) {
      SCOPED_TRACE(testing::Message() << DTypeName(dtype) << ", kind " << kind);
      const Stored held = Store(dtype, Sample(kind, 5003, random));
      for (const std::vector<double>& reference : {References(held.values, random), held.values}) {
        ExpectEqual(CompareAll(held, dtype, reference), Refer(dtype, held.values, reference),
                    held.values.size());
      }
    }
  }
}

TEST(CompareWithReference, AgreesAtEverySizeAroundLanesAndBlocks) {
  std::mt19937 random(12);
  std::vector<size_t> sizes;
  for (size_t size = 0; size <= 33; ++size) sizes.push_back(size);
  for (const size_t block : {4096, 8192, 12'288}) {
    for (size_t size = block - 9; size <= block + 9; ++size) sizes.push_back(size);
  }
  for (const size_t size : sizes) {
    SCOPED_TRACE(size);
    // Not finite only now and then, so that whole blocks are finite.
    std::vector<float> values = Sample(0, size, random);
    if (size > 0 && random() % 2 == 0) values[random() % size] = kNan;
    const Stored held = Store(DType::kFloat16, values);
    std::vector<double> reference = held.values;
    for (double& each : reference) each = std::isnan(each) ? 2 : each * 1.0003;
    ExpectEqual(CompareAll(held, DType::kFloat16, reference),
                Refer(DType::kFloat16, held.values, reference), size);
    for (double& each : reference) each = std::round(each);
    const ReferenceError whole = CompareAll(held, DType::kFloat16, reference);
    EXPECT_EQ(whole.integers, size > 0 && (size > 1 || std::isfinite(held.values[0])));
  }
}

// All pairs of values that mean something of their own, alone and at every place of two blocks.
TEST(CompareWithReference, SortsEveryPairOfSpecialValues) {
  const std::vector<float> helds = {kNan, kInf, -kInf, 0.0f, -0.0f, 1.0f, -448.0f, 57344.0f, 1e-5f};
  const std::vector<double> references = {kNan, kInf, -kInf, 0.0,    -0.0, 1.0,
                                          1.5,  1e5,  -1e5,  1e-320, 1e-6, 3e38};
  for (const DType dtype : kAllDTypes) {
    for (const float held : helds) {
      for (const double reference : references) {
        SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " " << held << ", " << reference);
        for (const size_t size : {1, 8, 9, 4096, 4099}) {
          for (const size_t at : {size_t{0}, size / 2, size - 1}) {
            std::vector<float> values(size, 2.0f);
            values[at] = held;
            const Stored stored = Store(dtype, values);
            std::vector<double> expected(size, 2.0);
            expected[at] = reference;
            ExpectEqual(CompareAll(stored, dtype, expected),
                        Refer(dtype, stored.values, expected), size);
          }
        }
      }
    }
  }
}

TEST(CompareWithReference, WhatIsNotFiniteOnOneSideOnlyIsNotInTheSums) {
  const Stored held = Store(DType::kFloat32, {kNan, kInf, 5, 6, 2, kInf});
  const std::vector<double> reference = {3, -4, kNan, -kInf, 1, kNan};
  const ReferenceError found = CompareAll(held, DType::kFloat32, reference);
  EXPECT_EQ(found.range, 2);
  EXPECT_EQ(found.reference_only, 2);
  EXPECT_EQ(found.undefined, 1);
  EXPECT_EQ(found.infinite, 0);
  EXPECT_EQ(found.nonzero, 3);
  EXPECT_EQ(found.squared_error, 1);
  EXPECT_EQ(found.squared_reference, 1);
  EXPECT_EQ(found.max_reference, 4);  // also where the held value is not finite
  EXPECT_EQ(found.max_held, 2);
  EXPECT_TRUE(found.integers);
  EXPECT_EQ(found.wrong_integers, 1);
}

TEST(CompareWithReference, NothingThatIsFiniteIsNoIntegers) {
  const Stored held = Store(DType::kFloat32, {kNan, kInf, 1, kNan});
  const ReferenceError found = CompareAll(held, DType::kFloat32, {kNan, 1, kInf, kInf});
  EXPECT_FALSE(found.integers);
  EXPECT_EQ(found.max_held, 0);
  EXPECT_EQ(found.squared_reference, 0);
}

TEST(CompareWithReference, CountsWhichOfManyFlushedMatter) {
  struct Case {
    std::vector<float> held;
    std::vector<double> reference;
    int64_t flushed, that_matter, in_range, that_matter_in_range;
  };
  const Case cases[] = {
      // Of a root mean square of 0.5, and of 2^-24, the smallest number of FP16.
      {{1, 0, 0, 0, 0}, {1, 0.5, 1e-3, 1e-9, 0}, 3, 1, 2, 1},
      {{0, -0.0, 0, 0}, {0x1p-24, -0x1p-25, 0x1p-23, 1e-12}, 4, 3, 2, 2},
      {{0, 0, kNan, 0}, {1, kInf, 1, 1e-3}, 2, 1, 2, 1},
      // One of ten, which is most of the error; and little of it.
      {{1, 1, 1, 1, 1, 1, 1, 1, 1, 0}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 0.1}, 1, 1, 1, 1},
      {{1, 1, 1, 1, 1, 1, 1, 1, 1, 0}, {2, 2, 2, 2, 2, 2, 2, 2, 2, 0.1}, 1, 0, 0, 0},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.reference[1]);
    const ReferenceError found =
        CompareAll(Store(DType::kFloat16, each.held), DType::kFloat16, each.reference);
    EXPECT_EQ(found.flushed, each.flushed);
    EXPECT_EQ(found.flushed_that_matter, each.that_matter);
    EXPECT_EQ(found.flushed_in_range, each.in_range);
    EXPECT_EQ(found.flushed_that_matter_in_range, each.that_matter_in_range);
  }
}

// Integers up to 2^(bits of the mantissa + 1) are exact; the next odd one is not.
TEST(CompareWithReference, IntegersBeyondTheExactRangeAreWrong) {
  const std::pair<DType, double> exact[] = {{DType::kFloat16, 2048},
                                            {DType::kBFloat16, 256},
                                            {DType::kFloat8E4M3, 16},
                                            {DType::kFloat8E5M2, 8},
                                            {DType::kFloat32, 0x1p24}};
  for (const auto& [dtype, limit] : exact) {
    SCOPED_TRACE(DTypeName(dtype));
    std::vector<float> values;
    std::vector<double> reference;
    for (const double sign : {1.0, -1.0}) {
      for (int i = -4; i <= 4; ++i) {
        reference.push_back(sign * (limit + i));
        values.push_back(static_cast<float>(sign * (limit + i)));
      }
    }
    const ReferenceError found = CompareAll(Store(dtype, values), dtype, reference);
    EXPECT_TRUE(found.integers);
    EXPECT_EQ(found.wrong_integers, 4);  // limit + 1 and + 3, of both signs
    reference[0] += 0.5;
    EXPECT_FALSE(CompareAll(Store(dtype, values), dtype, reference).integers);
  }
}

TEST(CompareWithReference, KnowsWholeNumbersOfEveryMagnitude) {
  std::mt19937_64 random(13);
  for (int exponent = -60; exponent <= 1000; exponent += exponent < 70 ? 1 : 93) {
    for (int i = 0; i < 50; ++i) {
      const double value = std::ldexp(1 + static_cast<double>(random() >> 11) * 0x1p-53, exponent);
      for (const double each : {value, -value, std::trunc(value), std::trunc(value) + 0.5}) {
        const Stored held = Store(DType::kFloat32, {kInf, 1});
        EXPECT_EQ(CompareAll(held, DType::kFloat32, {1, each}).integers, std::trunc(each) == each)
            << each;
      }
    }
  }
}

TEST(CompareWithReference, KnowsHalvesUpToTheLastOnesThatDoubleHas) {
  const Stored held = Store(DType::kFloat32, {1});
  for (const double each : {0x1p51 - 0.5, 0x1p51 + 0.5, 0x1p52 - 1.5, 0x1p52 - 0.5}) {
    for (const double sign : {1.0, -1.0}) {
      EXPECT_FALSE(CompareAll(held, DType::kFloat32, {sign * each}).integers) << each;
      EXPECT_TRUE(CompareAll(held, DType::kFloat32, {sign * (each + 0.5)}).integers) << each;
    }
  }
}

TEST(CompareWithReference, SquaresThatDoubleHasNotAreInProportion) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  for (const double size : {1e100, 1e154, 1e155, 1e200, 1e300, kLargest / 4}) {
    SCOPED_TRACE(size);
    for (const int64_t count : {1, 7, 5003}) {
      std::vector<double> reference, held;
      for (int64_t i = 0; i < count; ++i) {
        reference.push_back((i % 2 != 0 ? -2 : 2) * size);
        held.push_back((i % 4 != 0 ? 1.5 : 0) * reference.back() / 2);
      }
      const int64_t zeros = (count + 3) / 4;
      const ReferenceError found =
          CompareWithReference(View(held, {count}), View(reference, {count}));
      ASSERT_TRUE(std::isfinite(found.squared_reference)) << found.squared_reference;
      ASSERT_GT(found.squared_reference, size >= 1e155 ? 1e280 : 1e100);  // large beside others
      const double error = (zeros * 1.0 + (count - zeros) * 0.0625) / count;
      EXPECT_NEAR(found.squared_error / found.squared_reference, error, 1e-12);
      EXPECT_NEAR(found.squared_flushed / found.squared_reference, 1.0 * zeros / count, 1e-12);
      EXPECT_EQ(found.max_reference, 2 * size);
      EXPECT_EQ(found.flushed, zeros);
    }
  }
}

TEST(CompareWithReference, DifferencesThatDoubleHasNotAreInProportion) {
  const std::vector<double> held = {1e308, 1, std::numeric_limits<double>::quiet_NaN()};
  const std::vector<double> reference = {-1e308, 1e-300, 5};
  const ReferenceError found = CompareWithReference(View(held, {3}), View(reference, {3}));
  EXPECT_NEAR(found.squared_error / found.squared_reference, 4, 1e-12);
  EXPECT_EQ(found.range, 1);
}

TEST(CompareWithReference, ClippedIsTheLargestOfTheFormatForMore) {
  for (const DType dtype : kAllDTypes) {
    SCOPED_TRACE(DTypeName(dtype));
    const double largest = LargestOf(dtype);
    if (!std::isfinite(largest)) continue;
    const auto held = static_cast<float>(largest);
    const double more = largest * 1.01, same = largest, less = largest * 0.99;
    Stored stored = Store(dtype, {held, -held, held, -held, held, held / 2});
    if (dtype == DType::kFloat8E4M3)  // Store() knows nothing beyond 256 there
      stored.memory = {'\x7e', '\xfe', '\x7e', '\xfe', '\x7e', '\x76'};
    const ReferenceError found =
        CompareAll(stored, dtype, {more, -more, same, -less, -more, more});
    EXPECT_EQ(found.clipped, 3);
    EXPECT_EQ(found.max_held, largest);
  }
  const std::vector<double> largest = {std::numeric_limits<double>::max()};
  EXPECT_EQ(CompareWithReference(View(largest, {1}), View(largest, {1})).clipped, 0);
}

TEST(CompareWithReference, IsTheSameBitsForEveryLayoutOfTheSameElements) {
  std::mt19937 random(14);
  for (const int kind : {0, 11}) {
    const std::vector<float> sample = Sample(kind, 4 * 60 * 70, random);
    for (const DType dtype : kAllDTypes) {
      const Stored stored = Store(dtype, sample);
      const std::vector<double> references = References(stored.values, random);
      for (const Strided& layout : Layouts()) {
        SCOPED_TRACE(testing::Message() << DTypeName(dtype) << ", offset " << layout.offset
                                        << ", kind " << kind);
        const std::vector<double> expected = Pick(layout, references);
        const std::vector<char> together = Contiguous(dtype, layout, stored);
        const TensorView held{stored.memory.data() + layout.offset * ElementBytes(dtype), dtype,
                              layout.shape, layout.strides};
        const TensorView plain{together.data(), dtype, layout.shape, {}};
        const TensorView reference{references.data() + layout.offset, DType::kFloat64,
                                   layout.shape, layout.strides};
        const ReferenceError found = CompareWithReference(plain, View(expected, layout.shape));
        ExpectEqual(found, Refer(dtype, Pick(layout, stored.values), expected),
                    expected.size());
        ExpectSameBits(CompareWithReference(held, View(expected, layout.shape)), found);
        ExpectSameBits(CompareWithReference(plain, reference), found);
        ExpectSameBits(CompareWithReference(held, reference), found);
        const std::vector<int64_t> flat = {static_cast<int64_t>(expected.size())};
        ExpectSameBits(CompareWithReference(held, View(expected, flat)), found);
      }
    }
  }
}

TEST(CompareWithReference, IsTheSameBitsAtEveryAddressAndSimdLevel) {
  std::mt19937 random(15);
  for (const DType dtype : kAllDTypes) {
    const Stored stored = Store(dtype, Sample(11, 9001, random));
    const std::vector<double> reference = References(stored.values, random);
    const ReferenceError expected = CompareAll(stored, dtype, reference);
    ForEachSimdLevel([&](const std::string& level) {
      SCOPED_TRACE(testing::Message() << DTypeName(dtype) << " " << level);
      ExpectSameBits(CompareAll(stored, dtype, reference), expected);
      for (size_t shift = 0; shift < 4; ++shift) {
        Stored moved = stored;
        moved.memory.insert(moved.memory.begin(), shift * static_cast<size_t>(ElementBytes(dtype)),
                            'x');
        const std::vector<int64_t> shape = {9001};
        const TensorView view{
            moved.memory.data() + shift * static_cast<size_t>(ElementBytes(dtype)), dtype, shape,
            {}};
        ExpectSameBits(CompareWithReference(view, View(reference, shape)), expected);
      }
    });
  }
}

TEST(CompareWithReference, TakesAReferenceOfAnyDType) {
  std::mt19937 random(16);
  for (const DType held_dtype : kAllDTypes) {
    for (const DType dtype : kAllDTypes) {
      const Stored held = Store(held_dtype, Sample(11, 700, random));
      const Stored reference = Store(dtype, Sample(11, 700, random));
      const std::vector<int64_t> shape = {700};
      ExpectEqual(CompareWithReference({held.memory.data(), held_dtype, shape, {}},
                                       {reference.memory.data(), dtype, shape, {}}),
                  Refer(held_dtype, held.values, reference.values), 700);
    }
  }
}

TEST(CompareWithReference, OfWhatCannotBeComparedIsEmpty) {
  const std::vector<double> values(12, 1.0);
  const std::vector<int64_t> twelve = {12}, four = {4}, none = {3, 0}, table = {3, 4};
  TensorView unknown = View(values, twelve);
  unknown.dtype = DType::kUnknown;
  TensorStats known_stats;
  TensorView known = View(values, twelve);
  known.known = &known_stats;
  for (const ReferenceError& found :
       {CompareWithReference(View(values, twelve), View(values, four)),
        CompareWithReference(View(values, four), View(values, twelve)),
        CompareWithReference(unknown, View(values, twelve)),
        CompareWithReference(View(values, twelve), unknown),
        CompareWithReference(known, View(values, twelve)),
        CompareWithReference(View(values, twelve), known),
        CompareWithReference(View(values, none), View(values, none))}) {
    ExpectSameBits(found, ReferenceError{});
  }
  EXPECT_EQ(CompareWithReference(View(values, table), View(values, twelve)).numel, 12);
  const ReferenceError one = CompareWithReference(View(values, {}), View(values, {}));
  EXPECT_EQ(one.numel, 1);  // no dimensions
  EXPECT_EQ(one.squared_reference, 1);
}

}  // namespace
}  // namespace mpnanny
