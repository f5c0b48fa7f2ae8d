// The device kernels `flags` and `figures` in emulation, against the kernels of the CPU and a plain
// loop.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <random>
#include <vector>

#include "numerics/tensor_stats.h"
#include "tests/numerics/device_kernels.h"
#include "tests/numerics/reference.h"

namespace mpnanny {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr double kBound = 1e-11;  // of a sum of what is not negative, as tensor_stats.h promises

TensorView ViewOf(const Stored& stored, DType dtype, const int64_t (&shape)[1]) {
  return {stored.memory.data(), dtype, shape, {}};
}

void ExpectFlags(const device::FlagsSlot& got, const TensorStats& cpu, const Reference& ref) {
  EXPECT_EQ(got.elements, cpu.numel);
  EXPECT_EQ(got.nan, cpu.nan);
  EXPECT_EQ(got.posinf, cpu.posinf);
  EXPECT_EQ(got.neginf, cpu.neginf);
  EXPECT_EQ(std::bit_cast<uint64_t>(got.least), std::bit_cast<uint64_t>(cpu.min)) << got.least;
  EXPECT_EQ(std::bit_cast<uint64_t>(got.greatest), std::bit_cast<uint64_t>(cpu.max))
      << got.greatest;
  EXPECT_LE(std::fabs(got.squares - ref.squares), kBound * ref.squares) << got.squares;
}

void ExpectFigures(const device::FiguresSlot& got, const TensorStats& cpu,
                   const ExponentHistogram& exponents, const Reference& ref) {
  const TensorStats stats = device::StatsOf(got);
  ExpectSameCounts(stats, cpu);
  ExpectEqual(stats, ref);
  EXPECT_EQ(device::ExponentsOf(got), exponents);
  EXPECT_FALSE(stats.partial);
}

// Both kernels of tensors of one dtype, in as few tables as they take; and in any order the same
// bits.
void ExpectAll(DType dtype, const std::deque<Stored>& tensors,
               const std::vector<Order>& orders = {std::begin(kOrders), std::end(kOrders)}) {
  SCOPED_TRACE(DTypeName(dtype));
  std::vector<device::Row> rows;
  for (const Stored& each : tensors)
    rows.push_back(RowOf({{each.memory.data(), dtype}}, each.values.size()));
  const std::vector<device::FlagsSlot> flags = Flags(rows);
  const std::vector<device::FiguresSlot> figures = Figures(rows);
  for (size_t i = 0; i < tensors.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "tensor " << i << ", size " << tensors[i].values.size());
    const int64_t shape[] = {static_cast<int64_t>(tensors[i].values.size())};
    ExponentHistogram exponents;
    const TensorStats cpu = ComputeStats(ViewOf(tensors[i], dtype, shape), &exponents);
    const Reference ref = Refer(tensors[i].values);
    ExpectFlags(flags[i], cpu, ref);
    ExpectFigures(figures[i], cpu, exponents, ref);
  }
  for (const Order order : orders) {
    EXPECT_TRUE(Same(Flags(rows, order), flags));
    EXPECT_TRUE(Same(Figures(rows, order), figures));
  }
}

TEST(DeviceFigures, AreThoseOfTheCpuForEveryKindTypeAndSize) {
  std::mt19937 random(21);
  for (const DType dtype : kAllDTypes) {
    std::deque<Stored> tensors;
    for (int kind = 0; kind < kKinds; ++kind) {
      for (const size_t size : {0, 1, 2, 3, 7, 8, 31, 32, 33, 255, 256, 257, 2047, 2049, 9001})
        tensors.push_back(Store(dtype, Sample(kind, size, random)));
    }
    ExpectAll(dtype, tensors);
  }
}

TEST(DeviceFigures, AreThoseOfTheCpuAtTheEdgesOfBlocks) {
  std::mt19937 random(22);
  for (const DType dtype : kAllDTypes) {
    std::deque<Stored> tensors;
    for (const int kind : {4, 11}) {
      for (const size_t size : {65'535, 65'536, 65'537, 131'073})
        tensors.push_back(Store(dtype, Sample(kind, size, random)));
    }
    ExpectAll(dtype, tensors);
  }
}

TEST(DeviceFigures, OfAMillionElements) {
  std::mt19937 random(28);
  for (const DType dtype : kAllDTypes)
    ExpectAll(dtype, {Store(dtype, Sample(7, 1'000'003, random))}, {});
}

TEST(DeviceFigures, OfTenMillionElements) {
  constexpr size_t kSize = 10'000'019;
  std::mt19937 random(23);
  std::vector<float> values(kSize);
  for (size_t i = 0; i < kSize; ++i) {  // a wandering mean, spreads that differ
    values[i] = static_cast<float>(i / 100'000) +
                std::ldexp(static_cast<float>(random() % 10'000), -static_cast<int>(i % 37));
  }
  values[7'000'001] = kNan;
  values[kSize - 1] = -kInf;
  const Reference ref = Refer({values.begin(), values.end()});
  const int64_t shape[] = {kSize};
  ExponentHistogram exponents;
  const TensorStats cpu = ComputeStats({values.data(), DType::kFloat32, shape, {}}, &exponents);
  const std::vector<device::Row> rows = {RowOf({{values.data(), DType::kFloat32}}, kSize)};
  ExpectFigures(Figures(rows)[0], cpu, exponents, ref);
  ExpectFlags(Flags(rows)[0], cpu, ref);
}

// Blocks that end at the same time: each row is taken together once, with nothing missing.
TEST(DeviceFigures, AreTheSameBitsWhenBlocksRunAtOnce) {
  std::mt19937 random(24);
  std::deque<Stored> tensors;
  std::vector<device::Row> rows;
  for (int i = 0; i < 100; ++i) {
    const size_t size = i % 7 == 0 ? 300'000 : 1 + random() % 5000;
    tensors.push_back(Store(DType::kBFloat16, Sample(i % kKinds, size, random)));
    rows.push_back(RowOf({{tensors.back().memory.data(), DType::kBFloat16}}, size));
  }
  EXPECT_TRUE(Same(Flags(rows, Order::kForward, 4), Flags(rows)));
  EXPECT_TRUE(Same(Figures(rows, Order::kForward, 4), Figures(rows)));
}

// What cannot be loaded 16 bytes at a time takes another way through the kernel.
TEST(DeviceFigures, AreTheSameBitsAtEveryAlignment) {
  std::mt19937 random(25);
  for (const DType dtype : kAllDTypes) {
    SCOPED_TRACE(DTypeName(dtype));
    const Stored stored = Store(dtype, Sample(0, 70'001, random));
    const auto bytes = static_cast<size_t>(ElementBytes(dtype));
    std::vector<char> memory(stored.memory.size() + 64);
    const size_t base = (16 - reinterpret_cast<uintptr_t>(memory.data()) % 16) % 16;
    std::vector<std::vector<device::FiguresSlot>> found;
    for (size_t shift = 0; shift <= 16; shift += bytes) {
      std::copy(stored.memory.begin(), stored.memory.end(), memory.data() + base + shift);
      found.push_back(Figures({RowOf({{memory.data() + base + shift, dtype}}, 70'001)}));
      EXPECT_TRUE(Same(found.back(), found.front())) << shift;
    }
    const int64_t shape[] = {70'001};
    ExpectSameCounts(device::StatsOf(found[0][0]), ComputeStats(ViewOf(stored, dtype, shape)));
  }
}

// All codes of the small formats, and FP32's at every exponent.
TEST(DeviceFigures, DecodeEveryCode) {
  for (const DType dtype :
       {DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat8E5M2}) {
    SCOPED_TRACE(DTypeName(dtype));
    const int bytes = ElementBytes(dtype), codes = 1 << (8 * bytes);
    std::vector<device::Row> rows;
    std::vector<char> memory(static_cast<size_t>(codes * bytes));
    for (int code = 0; code < codes; ++code)
      std::memcpy(&memory[static_cast<size_t>(code * bytes)], &code, static_cast<size_t>(bytes));
    for (int code = 0; code < codes; ++code)
      rows.push_back(RowOf({{&memory[static_cast<size_t>(code * bytes)], dtype}}, 1));
    const std::vector<device::FlagsSlot> found = Flags(rows);
    for (int code = 0; code < codes; ++code) {
      const double value = Decode(dtype, &memory[static_cast<size_t>(code * bytes)]);
      const device::FlagsSlot& flags = found[static_cast<size_t>(code)];
      ASSERT_EQ(flags.nan, std::isnan(value)) << code;
      ASSERT_EQ(flags.posinf, std::isinf(value) && value > 0) << code;
      ASSERT_EQ(flags.neginf, std::isinf(value) && value < 0) << code;
      if (!std::isfinite(value)) continue;
      ASSERT_EQ(flags.least, value) << code;
      ASSERT_EQ(flags.greatest, value) << code;
      ASSERT_EQ(flags.squares, value * value) << code;
    }
  }
}

TEST(DeviceFigures, KeepTheDigitsOfASmallSpread) {
  std::mt19937 random(26);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (const auto& [mean, spread] :
       {std::pair(1000.0, 0.05), std::pair(1e4, 1e-3), std::pair(-1e4, 1e-2)}) {
    std::vector<float> values(1 << 18);
    for (float& x : values) x = static_cast<float>(mean + spread * uniform(random));
    for (const size_t zeros : {0, 300, 60'000}) {  // in front, where the shift might come from
      std::fill_n(values.begin(), zeros, 0.0f);
      ExpectEqual(
          device::StatsOf(Figures({RowOf({{values.data(), DType::kFloat32}}, values.size())})[0]),
          Refer({values.begin(), values.end()}));
    }
  }
}

TEST(DeviceFigures, OutliersDoNotSpoilTheShift) {
  std::vector<float> values(150'000, 1.0f);
  for (size_t i = 0; i < values.size(); ++i) values[i] += 1e-3f * static_cast<float>(i % 7);
  values[0] = 1e6f;
  values[256 * 5] = -3e37f;
  const auto expect = [&] {
    ExpectEqual(
        device::StatsOf(Figures({RowOf({{values.data(), DType::kFloat32}}, values.size())})[0]),
        Refer({values.begin(), values.end()}));
  };
  expect();
  // Only what is sampled for the shift is far off, so that it has to be taken again.
  for (size_t i = 0; i < 131'072; ++i)
    values[i] = i % 256 == 0 ? 1e5f : 0.125f * static_cast<float>(i % 3);
  expect();
}

TEST(DeviceFigures, OfDoublesOfEveryMagnitude) {
  constexpr double kMost = std::numeric_limits<double>::max();
  std::mt19937_64 random(27);
  std::vector<double> values;
  for (int i = 0; i < 70'000; ++i) {
    values.push_back(
        std::ldexp(random() % 2 == 0 ? 1.25 : -1.5, static_cast<int>(random() % 500) - 250));
  }
  for (const double each : {0x1p-25, 0x1.000001p-25, 2047 * 0x1p-25, 65519.99, 65520.0, 5e-324,
                            1e-310, 3.5e38, -3.5e38, 1e-40, 1.5e-45, 0.9 * 65504}) {
    values.push_back(each);
    values.push_back(std::nextafter(each, 0));
    values.push_back(std::nextafter(each, kMost));
  }
  const int64_t shape[] = {static_cast<int64_t>(values.size())};
  const TensorView view{values.data(), DType::kFloat64, shape, {}};
  ExponentHistogram exponents;
  const TensorStats cpu = ComputeStats(view, &exponents);
  const device::FiguresSlot found =
      Figures({RowOf({{values.data(), DType::kFloat64}}, values.size())})[0];
  ExpectFigures(found, cpu, exponents, Refer(values));

  // The mean of some is beyond double: sums are not of use, counts and extremes are.
  values = {kMost, kMost, -kMost, kMost};
  const device::FiguresSlot large =
      Figures({RowOf({{values.data(), DType::kFloat64}}, values.size())})[0];
  EXPECT_EQ(large.max, kMost);
  EXPECT_EQ(large.min, -kMost);
  EXPECT_EQ(large.above_fp16, 4);
  EXPECT_EQ(large.exponents[254], 4);
}

TEST(DeviceFigures, SaysWhatARowLacks) {
  const double value = 1;
  device::Row row = RowOf({{&value, DType::kFloat64}}, 1);
  EXPECT_EQ(device::WrongWith(row, 1), "");
  EXPECT_EQ(device::WrongWith(row, 2), "its tensor 1 has the unknown dtype 0");
  row.address[0] += 4;
  EXPECT_EQ(device::WrongWith(row, 1), "its tensor 0 is not aligned to its elements");
  row.dtypes[0] = 7;
  EXPECT_EQ(device::WrongWith(row, 1), "its tensor 0 has the unknown dtype 7");
  row = RowOf({{nullptr, DType::kFloat16}}, 1);
  EXPECT_EQ(device::WrongWith(row, 1), "its tensor 0 has no memory");
  row.elements = 0;
  EXPECT_EQ(device::WrongWith(row, 1), "");
  row.elements = -1;
  EXPECT_EQ(device::WrongWith(row, 1), "has a negative number of elements");
  row = RowOf({{&value, DType::kFloat64}}, 1);
  row.slot = -1;
  EXPECT_EQ(device::WrongWith(row, 1), "has no slot");
}

TEST(DeviceFigures, AClosedRowLeavesAtOnceAndItsNeighboursDoNot) {
  const std::vector<float> values(100'000, 2.5F);
  int64_t gate = 0;
  std::vector<device::Row> rows;
  for (int i = 0; i < 3; ++i) rows.push_back(RowOf({{values.data(), DType::kFloat32}}, 100'000));
  rows[1].options = device::kGated;
  EXPECT_EQ(device::WrongWith(rows[1], 1), "has no gate, or one that is not aligned to 8 bytes");
  rows[1].address[1] = reinterpret_cast<uintptr_t>(&gate);
  const auto closed = Figures(rows);
  EXPECT_EQ(closed[0].elements, 100'000);
  EXPECT_NE(closed[1].elements, 100'000);  // as the memory was
  EXPECT_EQ(closed[2].elements, 100'000);
  gate = 7;
  const auto open = Figures(rows);
  EXPECT_EQ(open[1].elements, 100'000);
  EXPECT_EQ(open[1].max, 2.5);
}

TEST(DeviceFigures, ATableIsFullAtSixtyFourRowsOrTheBlocksOfALaunch) {
  device::Table table = {};
  for (int i = 0; i < 64; ++i) {
    EXPECT_TRUE(device::Append(RowOf({}, static_cast<size_t>(i) * 65'536), table));
    EXPECT_EQ(table.row[i].first_block, i == 0 ? 0 : 1 + i * (i - 1) / 2);
  }
  EXPECT_FALSE(device::Append(RowOf({}, 1), table));
  EXPECT_EQ(table.rows, 64);
  table = {};
  EXPECT_TRUE(device::Append(RowOf({}, size_t{1} << 46), table));
  EXPECT_FALSE(device::Append(RowOf({}, size_t{1} << 46), table));
  EXPECT_EQ(table.rows, 1);
  EXPECT_EQ(table.blocks, 1 << 30);
  device::FlagsTable flags = {};
  const auto row = [](int slot, size_t elements = 1) {
    device::Row made = RowOf({}, elements);
    made.slot = slot;
    return made;
  };
  for (int i = 0; i < 250; ++i) EXPECT_TRUE(device::Append(row(7 + i), flags));
  EXPECT_FALSE(device::Append(row(257), flags));
  EXPECT_EQ(flags.row[249].first_block, 249u);
  EXPECT_EQ(flags.first_slot, 7);
  flags = {};
  EXPECT_FALSE(device::Append(row(0, size_t{1} << 36), flags));
  EXPECT_TRUE(device::Append(row(3, (size_t{1} << 36) - 1), flags));
  EXPECT_FALSE(device::Append(row(5), flags));  // its slot does not follow
  EXPECT_TRUE(device::Append(row(4), flags));
  EXPECT_EQ(flags.row[1].first_block, 1u << 20);
}

}  // namespace
}  // namespace mpnanny
