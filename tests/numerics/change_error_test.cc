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

struct PlainChange {
  int64_t moved = 0, lost = 0;
  long double change = 0, lost_change = 0, kept_change = 0, kept_size = 0, squared_change = 0,
              squared_error = 0;
};

PlainChange ReferChange(const std::vector<double>& before, const std::vector<double>& after,
                        const std::vector<double>& was, const std::vector<double>& now) {
  PlainChange plain;
  for (size_t i = 0; i < before.size(); ++i) {
    if (!std::isfinite(before[i]) || !std::isfinite(after[i])) continue;
    if (!std::isfinite(was[i]) || !std::isfinite(now[i]) || was[i] == now[i]) continue;
    const double held = after[i] - before[i], wanted = now[i] - was[i];
    ++plain.moved;
    plain.change += std::fabs(wanted);
    plain.squared_change += static_cast<long double>(wanted) * wanted;
    plain.squared_error += static_cast<long double>(held - wanted) * (held - wanted);
    plain.kept_change += wanted > 0 ? held : -held;
    plain.kept_size += std::fabs(held);
    if (after[i] == before[i]) {
      ++plain.lost;
      plain.lost_change += std::fabs(wanted);
    }
  }
  return plain;
}

void ExpectEqual(const ChangeError& got, const PlainChange& plain, size_t numel) {
  EXPECT_EQ(got.numel, static_cast<int64_t>(numel));
  EXPECT_EQ(got.moved, plain.moved);
  EXPECT_EQ(got.lost, plain.lost);
  ExpectSum(got.change, plain.change, "change");
  ExpectSum(got.lost_change, plain.lost_change, "lost change");
  EXPECT_LE(std::fabs(got.kept_change - plain.kept_change), 1e-12L * plain.kept_size);
  ExpectSum(got.squared_change, plain.squared_change, "squared change");
  ExpectSum(got.squared_error, plain.squared_error, "squared error");
}

using mpnanny::ExpectSameBits;
void ExpectSameBits(const ChangeError& got, const ChangeError& expected) {
  EXPECT_EQ(got.numel, expected.numel);
  EXPECT_EQ(got.moved, expected.moved);
  EXPECT_EQ(got.lost, expected.lost);
  ExpectSameBits(got.change, expected.change);
  ExpectSameBits(got.lost_change, expected.lost_change);
  ExpectSameBits(got.kept_change, expected.kept_change);
  ExpectSameBits(got.squared_change, expected.squared_change);
  ExpectSameBits(got.squared_error, expected.squared_error);
}

// Four tensors of one update: many elements stay, some are not finite in one of the four.
struct Update {
  Stored before, after;
  std::vector<double> was, now;
};
Update MakeUpdate(DType dtype, size_t size, std::mt19937& random, bool spoilt) {
  std::vector<float> weights = Sample(0, size, random), changed = weights;
  Update update;
  for (size_t i = 0; i < size; ++i) {
    const double change = std::ldexp(1 + 1e-3 * static_cast<double>(random() % 1000),
                                     -static_cast<int>(random() % 30)) *
                          (random() % 2 == 0 ? 1 : -1) * (random() % 8 != 0);
    changed[i] = static_cast<float>(weights[i] + change);
    update.was.push_back(weights[i] * 1.001);
    update.now.push_back(weights[i] * 1.001 + change);
    if (!spoilt || random() % 16 != 0) continue;
    const float bad = random() % 2 == 0 ? kNan : -kInf;
    (random() % 2 == 0 ? weights : changed)[i] = bad;
    if (random() % 2 == 0) (random() % 2 == 0 ? update.was : update.now)[i] = bad;
  }
  update.before = Store(dtype, weights);
  update.after = Store(dtype, changed);
  return update;
}

ChangeError CompareAll(const Update& update, DType dtype) {
  const std::vector<int64_t> shape = {static_cast<int64_t>(update.was.size())};
  return CompareChange({update.before.memory.data(), dtype, shape, {}},
                       {update.after.memory.data(), dtype, shape, {}}, View(update.was, shape),
                       View(update.now, shape));
}

TEST(CompareChange, AgreesWithAPlainLoopForEveryDTypeAndSize) {
  std::mt19937 random(17);
  for (const DType dtype : kAllDTypes) {
    for (const bool spoilt : {false, true}) {
      for (const size_t size : {0, 1, 7, 8, 9, 511, 4095, 4096, 4097, 4104, 8192, 9001}) {
        SCOPED_TRACE(testing::Message() << DTypeName(dtype) << ", " << size << ", " << spoilt);
        const Update update = MakeUpdate(dtype, size, random, spoilt);
        ExpectEqual(
            CompareAll(update, dtype),
            ReferChange(update.before.values, update.after.values, update.was, update.now), size);
      }
    }
  }
}

TEST(CompareChange, TellsLostKeptAndWrongChanges) {
  // Stays; follows; goes the other way; needs no change; goes twice as far; -0 is 0.
  const Stored before = Store(DType::kFloat32, {1, 1, 1, 1, 1, 0});
  const Stored after = Store(DType::kFloat32, {1, 0.5f, 1.25f, 2, 3, -0.0f});
  const Update update = {before, after, {1, 1, 1, 1, 1, 0}, {1.125, 0.5, 0.75, 1, 2, 1}};
  const ChangeError found = CompareAll(update, DType::kFloat32);
  EXPECT_EQ(found.numel, 6);
  EXPECT_EQ(found.moved, 5);
  EXPECT_EQ(found.lost, 2);
  EXPECT_EQ(found.change, 0.125 + 0.5 + 0.25 + 1 + 1);
  EXPECT_EQ(found.lost_change, 1.125);
  EXPECT_EQ(found.kept_change, 0.5 - 0.25 + 2);
  EXPECT_EQ(found.squared_change, 0.125 * 0.125 + 0.25 + 0.0625 + 1 + 1);
  EXPECT_EQ(found.squared_error, 0.125 * 0.125 + 0.25 + 1 + 1);
}

TEST(CompareChange, IsTheSameBitsForEveryLayoutOfTheSameElements) {
  std::mt19937 random(18);
  for (const DType dtype : kAllDTypes) {
    const Update update = MakeUpdate(dtype, 4 * 60 * 70, random, true);
    for (const Strided& layout : Layouts()) {
      SCOPED_TRACE(testing::Message() << DTypeName(dtype) << ", offset " << layout.offset);
      const std::vector<char> before = Contiguous(dtype, layout, update.before);
      const std::vector<char> after = Contiguous(dtype, layout, update.after);
      const std::vector<double> was = Pick(layout, update.was), now = Pick(layout, update.now);
      const auto strided = [&](const void* data, DType of) {
        return TensorView{static_cast<const char*>(data) + layout.offset * ElementBytes(of), of,
                          layout.shape, layout.strides};
      };
      const TensorView plain_before{before.data(), dtype, layout.shape, {}};
      const TensorView plain_after{after.data(), dtype, layout.shape, {}};
      const ChangeError found = CompareChange(plain_before, plain_after, View(was, layout.shape),
                                              View(now, layout.shape));
      ExpectEqual(found,
                  ReferChange(Pick(layout, update.before.values),
                              Pick(layout, update.after.values), was, now),
                  was.size());
      ExpectSameBits(CompareChange(strided(update.before.memory.data(), dtype),
                                   strided(update.after.memory.data(), dtype),
                                   strided(update.was.data(), DType::kFloat64),
                                   strided(update.now.data(), DType::kFloat64)),
                     found);
      ExpectSameBits(CompareChange(plain_before, strided(update.after.memory.data(), dtype),
                                   View(was, layout.shape),
                                   strided(update.now.data(), DType::kFloat64)),
                     found);
    }
  }
}

TEST(CompareChange, OfWhatCannotBeComparedIsEmpty) {
  const std::vector<double> values(4, 1.0), others(4, 2.0);
  const std::vector<int64_t> four = {4}, three = {3};
  const TensorView all = View(values, four), few = View(values, three), next = View(others, four);
  TensorView unknown = all;
  unknown.dtype = DType::kUnknown;
  for (const TensorView& bad : {few, unknown}) {
    ExpectSameBits(CompareChange(bad, next, all, next), ChangeError{});
    ExpectSameBits(CompareChange(all, bad, all, next), ChangeError{});
    ExpectSameBits(CompareChange(all, next, bad, next), ChangeError{});
    ExpectSameBits(CompareChange(all, next, all, bad), ChangeError{});
  }
  EXPECT_EQ(CompareChange(all, next, all, next).moved, 4);
}

}  // namespace
}  // namespace mpnanny
