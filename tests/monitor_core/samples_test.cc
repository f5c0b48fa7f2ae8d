// What the tensors of a sample lead to: values that a format does not hold, columns that others
// dwarf, and what an optimizer's step moved.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "monitor/core/alert_values.h"
#include "monitor/core/update_samples.h"
#include "tests/monitor_core/observed.h"

namespace mpnanny {
namespace {

// --- values ---

template <typename T>
struct Tensor {
  Tensor(std::vector<T> of, DType type, std::vector<int64_t> dims)
      : values(std::move(of)), shape(std::move(dims)), dtype(type) {}
  TensorView view() const { return {values.data(), dtype, shape, {}}; }
  std::vector<T> values;
  std::vector<int64_t> shape;
  DType dtype;
};

std::string Judged(const std::vector<float>& values, Word<Precision> precision,
                   TensorKind kind = TensorKind::kActivation) {
  const Tensor<float> tensor(values, DType::kFloat32, {static_cast<int64_t>(values.size())});
  SampleRow row;
  row.kind = kind;
  row.dtype = DType::kFloat32;
  row.stats = ComputeStats(tensor.view());
  const auto judged = JudgeFormat(precision, row.dtype, kind, false);
  if (!judged) return "not judged";
  Alerts out;
  ValueConditions({row, "x", *judged, MeasureShares(tensor.view(), row.stats, *judged), {}, {}},
                  out);
  return Types(out);
}

std::vector<float> Filled(float most, size_t count, float few) {
  std::vector<float> values(100, most);
  for (size_t i = 0; i < count; ++i) values[i] = few;
  return values;
}

TEST(ValueConditions, BFloat16HoldsWhatFp32HoldsButForItsEnds) {
  EXPECT_EQ(Judged(Filled(1, 50, 1e-37f), Precision::kBf16), "");
  EXPECT_EQ(Judged(Filled(1, 2, 4.7e-41f), Precision::kBf16), "");  // 2^-134 and a bit
  EXPECT_EQ(Judged(Filled(1, 2, 4.5e-41f), Precision::kBf16),
            "UNDERFLOW");                                           // under 2^-134 = 4.59e-41
  EXPECT_EQ(Judged(Filled(1, 1, 4.5e-41f), Precision::kBf16), "");  // 1 % is allowed
  EXPECT_EQ(Judged(Filled(1, 2, 3.1e38f), Precision::kBf16), "SATURATION");
  EXPECT_EQ(Judged(Filled(1, 2, 3.4e38f), Precision::kBf16), "OVERFLOW SATURATION");
}

TEST(ValueConditions, Fp8IsJudgedForUnderflowAtTheScaleThatItNeeds) {
  // 2.2e-6 of the largest in E4M3, whatever the largest is.
  for (float largest : {1e-3f, 1.f, 100.f}) {
    EXPECT_EQ(Judged(Filled(largest, 2, largest * 3e-6f), Precision::kFp8), "");
    EXPECT_EQ(Judged(Filled(largest, 2, largest * 2e-6f), Precision::kFp8), "UNDERFLOW");
    EXPECT_EQ(Judged(Filled(largest, 2, largest * 2e-6f), Precision::kFp8, TensorKind::kGradient),
              "");
    EXPECT_EQ(Judged(Filled(largest, 2, largest * 1e-10f), Precision::kFp8, TensorKind::kGradient),
              "UNDERFLOW");
  }
  EXPECT_EQ(Judged(Filled(1, 2, 500), Precision::kFp8), "OVERFLOW SATURATION");
  EXPECT_EQ(Judged(Filled(1, 2, 420), Precision::kFp8), "SATURATION");
}

TEST(ValueConditions, WhatStaysInItsOwnTypeIsNotJudgedByTheRuns) {
  EXPECT_EQ(Judged(Filled(1, 50, 1e-12f), Precision::kFp16, TensorKind::kOptimizerState),
            "not judged");
  EXPECT_EQ(Judged(Filled(1, 50, 1e-12f), Precision::kFp16, TensorKind::kUpdate), "not judged");
  EXPECT_EQ(Judged(Filled(1, 50, 1e-12f), Precision::kFp16, TensorKind::kWeight), "");
  EXPECT_EQ(Judged(Filled(1, 50, 1e-12f), Precision::kFp16), "UNDERFLOW");
  EXPECT_EQ(Judged(Filled(1, 50, 1e6f), Precision::kFp32), "not judged");
}

TEST(ValueConditions, ValuesInANarrowTypeAreJudgedByIt) {
  for (const Word<Precision>& precision :
       {Word<Precision>(), Word(Precision::kBf16), Word(Precision::kFp16)}) {
    const auto judged = JudgeFormat(precision, DType::kFloat16, TensorKind::kOptimizerState, false);
    ASSERT_TRUE(judged);
    EXPECT_EQ(judged->format, Format::kFp16);
    EXPECT_TRUE(judged->held);
  }
  EXPECT_EQ(JudgeFormat({}, DType::kBFloat16, TensorKind::kActivation, false)->format,
            Format::kBf16);
  EXPECT_FALSE(
      JudgeFormat(Precision::kFp16, DType::kBFloat16, TensorKind::kActivation, false)->held);
  EXPECT_TRUE(JudgeFormat({}, DType::kFloat32, TensorKind::kActivation, false)->plain_fp32);
}

// --- DIM_IMBALANCE ---

TEST(MeasureColumns, TakesTheLargestOfEachLiveColumn) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Tensor<float> tensor({1, 0, -5, 0.5f, kNan, 0, 2, 0.25f, -3, 0, kInf, 0, 2, 0, 1, 0.1f},
                             DType::kFloat32, {4, 4});
  const auto columns = MeasureColumns(tensor.view());
  ASSERT_TRUE(columns);
  EXPECT_EQ(columns->live, 3);
  EXPECT_EQ(columns->largest, 5);
  EXPECT_EQ(columns->smallest, 0.5);
}

TEST(MeasureColumns, ReadsWhatLiesApart) {
  // [2, 2, 3] of which the rows are 4 apart and the halves 16.
  std::vector<float> memory(32, 99);
  for (int half = 0; half < 2; ++half) {
    for (int row = 0; row < 2; ++row) {
      for (int column = 0; column < 3; ++column)
        memory[static_cast<size_t>(half * 16 + row * 4 + column)] =
            static_cast<float>((column + 1) * (half + row + 1));
    }
  }
  const int64_t shape[] = {2, 2, 3}, strides[] = {16, 4, 1};
  const auto columns = MeasureColumns({memory.data(), DType::kFloat32, shape, strides});
  ASSERT_TRUE(columns);
  EXPECT_EQ(columns->live, 3);
  EXPECT_EQ(columns->largest, 9);
  EXPECT_EQ(columns->smallest, 3);
}

TEST(MeasureColumns, LeavesOutWhatHasNoFeaturesInItsLastDimension) {
  const std::vector<float> values(1024, 1);
  const auto measured = [&](std::vector<int64_t> shape, std::vector<int64_t> strides = {}) {
    return MeasureColumns({values.data(), DType::kFloat32, shape, strides}).has_value();
  };
  EXPECT_TRUE(measured({32, 32}));
  EXPECT_TRUE(measured({2, 2, 256}));
  EXPECT_FALSE(measured({1024}));
  EXPECT_FALSE(measured({3, 32}));  // too few rows to tell a small column from an unlucky one
  EXPECT_FALSE(measured({2, 4, 4, 4}));
  EXPECT_FALSE(measured({32, 32}, {1, 32}));
  EXPECT_FALSE(measured({1024, 1}));
  EXPECT_FALSE(measured({0, 4}));
}

// --- updates ---

TEST(UpdateSamples, LooksAtTheSameElementsBeforeAndAfter) {
  UpdateSamples samples;
  samples.Expect(1, UpdateSamples::kElements);
  std::vector<float> weight(1'000'000, 1);
  const int64_t shape[] = {1000, 1000};
  const TensorView view{weight.data(), DType::kFloat32, shape, {}};
  samples.BeginStep();
  ASSERT_TRUE(samples.Keep(7, view));
  for (float& each : weight) each += 0.5f;
  const std::vector<float> gradient(weight.size(), 1);
  UpdatedWeight updated{7, view, TensorView{gradient.data(), DType::kFloat32, shape, {}}, true};
  const auto found = samples.Compare(updated);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->update.numel, 65'536);
  EXPECT_EQ(found->update.min, 0.5);
  EXPECT_EQ(found->update.max, 0.5);
  EXPECT_EQ(found->moved, 65'536);
  EXPECT_EQ(found->frozen, 0);
  EXPECT_TRUE(found->judge);
  EXPECT_FALSE(samples.Compare(updated));  // once a step
  samples.BeginStep();
  EXPECT_FALSE(samples.Compare(updated));  // not kept
}

TEST(UpdateSamples, KeepsToItsMemory) {
  UpdateSamples samples;
  constexpr int64_t kTensors = 4000;
  samples.Expect(kTensors, UpdateSamples::kElements);
  EXPECT_EQ(samples.limit(), 2048);  // 32 MiB / 4000 / 4 bytes, in runs of 1024
  const std::vector<double> weight(4096, 1);
  const int64_t shape[] = {4096};
  samples.BeginStep();
  int64_t kept = 0;
  for (int64_t i = 0; i < kTensors; ++i)
    kept += samples.Keep(i, {weight.data(), DType::kFloat64, shape, {}});
  EXPECT_EQ(kept, UpdateSamples::kBytes / (2048 * 8));  // wider elements than were expected
}

TEST(UpdateSamples, LeavesOutWhatHasGapsAndDoesNotJudgeWithoutAGradient) {
  UpdateSamples samples;
  samples.Expect(1, UpdateSamples::kElements);
  const std::vector<float> weight(64, 1);
  const int64_t shape[] = {4, 4}, gaps[] = {8, 1}, turned[] = {1, 4}, backwards[] = {-4, 1};
  samples.BeginStep();
  EXPECT_FALSE(samples.Keep(1, {weight.data(), DType::kFloat32, shape, gaps}));
  EXPECT_FALSE(samples.Keep(1, {weight.data() + 12, DType::kFloat32, shape, backwards}));
  const TensorView view{weight.data(), DType::kFloat32, shape, turned};
  EXPECT_TRUE(samples.Keep(1, view));
  const int64_t straight[] = {4, 1};
  const TensorView gradient{weight.data(), DType::kFloat32, shape, straight};
  const auto found = samples.Compare({1, view, gradient, true});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->update.numel, 16);
  EXPECT_FALSE(found->judge);  // the gradient's elements lie in another order
}

}  // namespace
}  // namespace mpnanny
