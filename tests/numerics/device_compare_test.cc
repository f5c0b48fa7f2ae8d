// The device kernels `compare` and `change` in emulation, against the kernels of the CPU and a
// plain loop.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <random>
#include <vector>

#include "numerics/reference_error.h"
#include "tests/numerics/device_kernels.h"
#include "tests/numerics/plain_comparison.h"

namespace mpnanny {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Pair {
  Stored held;
  std::vector<double> reference;
};

device::Row RowOf(const Pair& pair, DType dtype, unsigned options = 0) {
  return mpnanny::RowOf(
      {{pair.held.memory.data(), dtype}, {pair.reference.data(), DType::kFloat64}},
      pair.reference.size(), options);
}

ReferenceError OnCpu(const Pair& pair, DType dtype) {
  const std::vector<int64_t> shape = {static_cast<int64_t>(pair.reference.size())};
  return CompareWithReference({pair.held.memory.data(), dtype, shape, {}},
                              View(pair.reference, shape));
}

ReferenceError OnDevice(const Pair& pair, DType dtype) {
  return device::ErrorOf(Compare({RowOf(pair, dtype)})[0]);
}

void ExpectSameFlushed(const ReferenceError& got, const ReferenceError& cpu) {
  EXPECT_EQ(got.flushed_that_matter, cpu.flushed_that_matter);
  EXPECT_EQ(got.flushed_in_range, cpu.flushed_in_range);
  EXPECT_EQ(got.flushed_that_matter_in_range, cpu.flushed_that_matter_in_range);
}

void ExpectAll(DType dtype, const std::deque<Pair>& pairs) {
  SCOPED_TRACE(DTypeName(dtype));
  std::vector<device::Row> rows;
  for (const Pair& each : pairs) rows.push_back(RowOf(each, dtype));
  const std::vector<device::CompareSlot> found = Compare(rows);
  for (size_t i = 0; i < pairs.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "pair " << i << ", size " << pairs[i].reference.size());
    const ReferenceError got = device::ErrorOf(found[i]);
    ExpectEqual(got, Refer(dtype, pairs[i].held.values, pairs[i].reference),
                pairs[i].reference.size());
    ExpectSameFlushed(got, OnCpu(pairs[i], dtype));
    if (testing::Test::HasFailure()) return;
  }
  for (const Order order : kOrders) EXPECT_TRUE(Same(Compare(rows, order), found));
  EXPECT_TRUE(Same(Compare(rows, Order::kForward, 3), found));
}

TEST(DeviceCompare, IsTheCpusForEveryKindTypeAndSize) {
  std::mt19937 random(31);
  for (const DType dtype : kAllDTypes) {
    std::deque<Pair> pairs;
    for (int kind = 0; kind < kKinds; ++kind) {
      for (const size_t size : {0, 1, 2, 5, 31, 32, 33, 1023, 1025, 5003}) {
        const Stored held = Store(dtype, Sample(kind, size, random));
        pairs.push_back({held, References(held.values, random)});
        pairs.push_back({held, held.values});
      }
    }
    ExpectAll(dtype, pairs);
  }
}

TEST(DeviceCompare, IsTheCpusAtTheEdgesOfBlocks) {
  std::mt19937 random(32);
  for (const DType dtype : kAllDTypes) {
    std::deque<Pair> pairs;
    for (const size_t size : {65'535, 65'536, 65'537, 200'000}) {
      const Stored held = Store(dtype, Sample(0, size, random));
      pairs.push_back({held, References(held.values, random)});
      std::vector<double> near = held.values;
      for (double& each : near) each = std::isnan(each) ? 2 : each * 1.0003;
      pairs.push_back({held, near});
    }
    ExpectAll(dtype, pairs);
  }
}

TEST(DeviceCompare, OfAMillionElements) {
  std::mt19937 random(33);
  const Stored held = Store(DType::kBFloat16, Sample(0, 1'000'003, random));
  std::vector<double> reference = held.values;
  for (double& each : reference) each *= 1.001;
  ExpectAll(DType::kBFloat16, {{held, reference}});
}

TEST(DeviceCompare, SortsEveryPairOfSpecialValues) {
  const std::vector<float> helds = {kNan, kInf, -kInf, 0.0f, -0.0f, 1.0f, -448.0f, 57344.0f, 1e-5f};
  const std::vector<double> references = {kNan, kInf, -kInf, 0.0,    -0.0, 1.0,
                                          1.5,  1e5,  -1e5,  1e-320, 1e-6, 3e38};
  for (const DType dtype : kAllDTypes) {
    std::deque<Pair> pairs;
    for (const float held : helds) {
      for (const double reference : references) {
        for (const size_t size : {1, 9, 4099}) {
          for (const size_t at : {size_t{0}, size - 1}) {
            std::vector<float> values(size, 2.0f);
            values[at] = held;
            std::vector<double> expected(size, 2.0);
            expected[at] = reference;
            pairs.push_back({Store(dtype, values), expected});
          }
        }
      }
    }
    ExpectAll(dtype, pairs);
  }
}

TEST(DeviceCompare, CountsWhichOfManyFlushedMatter) {
  // Of a root mean square of 0.5, and of 2^-24, the smallest number of FP16; as the CPU's test.
  const Pair many = {Store(DType::kFloat16, {1, 0, 0, 0, 0}), {1, 0.5, 1e-3, 1e-9, 0}};
  const device::CompareSlot found = Compare({RowOf(many, DType::kFloat16)})[0];
  EXPECT_EQ(found.flushed, 3);
  EXPECT_EQ(found.flushed_that_matter, 1u);
  EXPECT_EQ(found.flushed_in_range, 2u);
  EXPECT_EQ(found.flushed_that_matter_in_range, 1u);
  // Blocks count together; a second launch counts from 0.
  std::mt19937 random(34);
  for (const DType dtype : kAllDTypes) {
    SCOPED_TRACE(DTypeName(dtype));
    Pair large = {Store(dtype, std::vector<float>(200'000)), {}};
    for (int i = 0; i < 200'000; ++i)
      large.reference.push_back(std::ldexp(1.0 + i % 3, -static_cast<int>(random() % 1074)));
    const ReferenceError got = OnDevice(large, dtype), cpu = OnCpu(large, dtype);
    ExpectSameFlushed(got, cpu);
    EXPECT_GT(got.flushed_that_matter, 0);
    EXPECT_GT(got.flushed_in_range, 0);
    EXPECT_LT(got.flushed_that_matter_in_range, got.flushed);
  }
}

TEST(DeviceCompare, KnowsWholeNumbersOfEveryMagnitude) {
  std::mt19937_64 random(35);
  std::deque<Pair> pairs;
  const Stored held = Store(DType::kFloat32, {kInf, 1});
  for (int exponent = -60; exponent <= 1000; exponent += exponent < 70 ? 1 : 93) {
    for (int i = 0; i < 10; ++i) {
      const double value = std::ldexp(1 + static_cast<double>(random() >> 11) * 0x1p-53, exponent);
      for (const double each : {value, -value, std::trunc(value), std::trunc(value) + 0.5})
        pairs.push_back({held, {1, each}});
    }
  }
  for (const double each : {0x1p51 - 0.5, 0x1p51 + 0.5, 0x1p52 - 1.5, 0x1p52 - 0.5, 0x1p52 + 1})
    pairs.push_back({held, {1, each}});
  std::vector<device::Row> rows;
  for (const Pair& each : pairs) rows.push_back(RowOf(each, DType::kFloat32));
  const std::vector<device::CompareSlot> found = Compare(rows);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const double value = pairs[i].reference[1];
    EXPECT_EQ(found[i].integers, std::trunc(value) == value) << value;
  }
}

TEST(DeviceCompare, SquaresThatDoubleHasNotAreInProportion) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  for (const double size : {1e100, 1e154, 1e155, 1e200, 1e300, kLargest / 4}) {
    for (const int count : {1, 7, 5003, 200'000}) {
      SCOPED_TRACE(testing::Message() << size << ", " << count);
      Pair pair;
      for (int i = 0; i < count; ++i) {
        pair.reference.push_back((i % 2 != 0 ? -2 : 2) * size);
        pair.held.values.push_back((i % 4 != 0 ? 1.5 : 0) * pair.reference.back() / 2);
      }
      pair.held.memory.resize(pair.held.values.size() * 8);
      std::memcpy(pair.held.memory.data(), pair.held.values.data(), pair.held.memory.size());
      const ReferenceError found = OnDevice(pair, DType::kFloat64);
      const ReferenceError cpu = OnCpu(pair, DType::kFloat64);
      const auto expect = [](double got, double expected) {
        EXPECT_LE(std::fabs(got - expected), 1e-11 * expected) << got << " for " << expected;
      };
      expect(found.squared_error, cpu.squared_error);
      expect(found.squared_reference, cpu.squared_reference);
      expect(found.squared_flushed, cpu.squared_flushed);
      EXPECT_EQ(found.max_error, cpu.max_error);
      EXPECT_EQ(found.max_reference, 2 * size);
      ExpectSameFlushed(found, cpu);
    }
  }
}

// Blocks of very different magnitudes: one scale is found for all.
TEST(DeviceCompare, OneBlockBeyondDoubleScalesAll) {
  Pair pair;
  pair.reference.assign(200'000, 1e150);
  pair.reference[70'000] = -1e200;
  pair.reference[140'000] = 1e180;
  pair.held.values = pair.reference;
  for (double& each : pair.held.values) each /= 2;
  pair.held.values[3] = std::nan("");
  pair.held.values[70'001] = kInf;  // in the block that is read once more
  pair.held.memory.resize(pair.held.values.size() * 8);
  std::memcpy(pair.held.memory.data(), pair.held.values.data(), pair.held.memory.size());
  const ReferenceError found = OnDevice(pair, DType::kFloat64), cpu = OnCpu(pair, DType::kFloat64);
  EXPECT_NEAR(found.squared_error / found.squared_reference, 0.25, 1e-12);
  EXPECT_LE(std::fabs(found.squared_error - cpu.squared_error), 1e-11 * cpu.squared_error);
  EXPECT_EQ(found.range, 2);
  // Each block's sum is finite, all together are not.
  pair.reference.assign(200'000, 5e151);
  pair.held = Store(DType::kFloat32, std::vector<float>(200'000, 1));
  const ReferenceError sum = OnDevice(pair, DType::kFloat32),
                       expected = OnCpu(pair, DType::kFloat32);
  ASSERT_TRUE(std::isfinite(sum.squared_reference));
  EXPECT_LE(std::fabs(sum.squared_reference - expected.squared_reference),
            1e-11 * expected.squared_reference);
}

TEST(DeviceCompare, AReferenceThatAloneIsNotFiniteIsPutRight) {
  std::mt19937 random(36);
  for (const DType dtype : kAllDTypes) {
    SCOPED_TRACE(DTypeName(dtype));
    for (const bool narrow : {false, true}) {
      Pair pair = {Store(dtype, Sample(0, 140'000, random)), {}};
      pair.reference = pair.held.values;
      pair.reference[0] = 5;
      pair.reference[131'072] = kInf;
      pair.reference[139'999] = kNan;
      std::vector<float> fp32(pair.reference.begin(), pair.reference.end());
      const void* const memory =
          narrow ? static_cast<const void*>(fp32.data()) : pair.reference.data();
      const auto run = [&](unsigned options) {
        return Compare({mpnanny::RowOf({{pair.held.memory.data(), dtype},
                                        {memory, narrow ? DType::kFloat32 : DType::kFloat64}},
                                       pair.reference.size(), options)})[0];
      };
      EXPECT_EQ(run(0).reference_only, 2);
      EXPECT_EQ(run(device::kRestarts).reference_only, 2);  // without the option nothing is written
      const device::CompareSlot after = run(device::kRestarts);
      EXPECT_EQ(after.reference_only, 0);
      EXPECT_EQ(after.squared_error, narrow && dtype == DType::kFloat64 ? after.squared_error : 0);
      for (size_t i = 0; i < pair.reference.size(); ++i) {
        if (narrow) {
          ASSERT_EQ(fp32[i], static_cast<float>(pair.held.values[i]));
        } else {
          ASSERT_EQ(pair.reference[i], pair.held.values[i]);
        }
      }
    }
  }
}

TEST(DeviceCompare, AReferenceStaysWhereTheHeldValuesAreNotFiniteOrItIsFinite) {
  for (const float held : {kNan, kInf, 1.0f}) {
    Pair pair = {Store(DType::kFloat32, {2, held, 3}), {2.5, held == 1.0f ? 1.0 : 7.0, 3}};
    if (held != 1.0f) pair.reference[0] = kNan;
    const std::vector<double> before = pair.reference;
    Compare({RowOf(pair, DType::kFloat32, device::kRestarts)});
    EXPECT_EQ(std::isnan(pair.reference[0]), std::isnan(before[0]));
    EXPECT_EQ(pair.reference[1], before[1]);
    EXPECT_EQ(pair.reference[2], before[2]);
  }
}

TEST(DeviceCompare, ReferencesMayBeFp32) {
  std::mt19937 random(37);
  const Stored held = Store(DType::kFloat16, Sample(0, 70'000, random));
  std::vector<float> reference;
  for (const double each : held.values) reference.push_back(static_cast<float>(each * 1.0001));
  const Plain plain = Refer(DType::kFloat16, held.values, {reference.begin(), reference.end()});
  ExpectEqual(device::ErrorOf(Compare({mpnanny::RowOf(
                  {{held.memory.data(), DType::kFloat16}, {reference.data(), DType::kFloat32}},
                  reference.size())})[0]),
              plain, reference.size());
}

struct Update {
  Stored before, after;
  std::vector<double> was, now;
};

Update MakeUpdate(DType dtype, int kind, size_t size, std::mt19937& random) {
  std::vector<float> weights = Sample(kind, size, random), changed = weights;
  Update update;
  for (size_t i = 0; i < size; ++i) {
    const double change = std::ldexp(1 + 1e-3 * static_cast<double>(random() % 1000),
                                     -static_cast<int>(random() % 30)) *
                          (random() % 2 == 0 ? 1 : -1) * (random() % 8 != 0 ? 1 : 0);
    update.was.push_back(weights[i] * 1.0001);
    update.now.push_back(update.was.back() + change);
    changed[i] = static_cast<float>(changed[i] + change);
    if (random() % 50 == 0) update.now.back() = random() % 2 == 0 ? kNan : kInf;
  }
  update.before = Store(dtype, weights);
  update.after = Store(dtype, changed);
  return update;
}

TEST(DeviceChange, IsTheCpusForEveryKindTypeAndSize) {
  std::mt19937 random(38);
  for (const DType dtype : kAllDTypes) {
    SCOPED_TRACE(DTypeName(dtype));
    std::deque<Update> updates;
    std::vector<device::Row> rows;
    for (const size_t size : {0, 1, 31, 32, 33, 257, 5003, 65'535, 65'536, 65'537, 200'000}) {
      for (const int kind : {0, 3, 11}) {
        if (size > 60'000 && kind != 11) continue;
        updates.push_back(MakeUpdate(dtype, kind, size, random));
        const Update& each = updates.back();
        rows.push_back(mpnanny::RowOf({{each.before.memory.data(), dtype},
                                       {each.after.memory.data(), dtype},
                                       {each.was.data(), DType::kFloat64},
                                       {each.now.data(), DType::kFloat64}},
                                      size));
      }
    }
    const std::vector<device::ChangeSlot> found = Change(rows);
    for (size_t i = 0; i < updates.size(); ++i) {
      const Update& each = updates[i];
      const std::vector<int64_t> shape = {static_cast<int64_t>(each.was.size())};
      const ChangeError got = device::ChangeOf(found[i]);
      const ChangeError cpu = CompareChange({each.before.memory.data(), dtype, shape, {}},
                                            {each.after.memory.data(), dtype, shape, {}},
                                            View(each.was, shape), View(each.now, shape));
      EXPECT_EQ(got.numel, cpu.numel);
      EXPECT_EQ(got.moved, cpu.moved);
      EXPECT_EQ(got.lost, cpu.lost);
      ExpectSum(got.change, cpu.change, "change");
      ExpectSum(got.lost_change, cpu.lost_change, "lost change");
      ExpectSum(got.squared_change, cpu.squared_change, "squared change");
      ExpectSum(got.squared_error, cpu.squared_error, "squared error");
      long double kept_size = 0;
      for (size_t k = 0; k < each.was.size(); ++k) {
        const double moved = each.after.values[k] - each.before.values[k];
        if (std::isfinite(moved) && std::isfinite(each.now[k] - each.was[k]))
          kept_size += std::fabs(moved);
      }
      EXPECT_LE(std::fabs(got.kept_change - cpu.kept_change), 1e-12L * kept_size);
    }
    for (const Order order : kOrders) EXPECT_TRUE(Same(Change(rows, order), found));
  }
}

}  // namespace
}  // namespace mpnanny
