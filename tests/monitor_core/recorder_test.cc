// What a step's facts lead to: alerts, and the rows of runs that share a file.
#include "monitor/core/recorder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <latch>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "base/process_info.h"
#include "tests/monitor_core/observed.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class RecorderTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("mpnanny-recorder-" + std::to_string(CurrentProcess()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    path_ = (folder_ / "a.db").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<Recorder> Open() const {
    RecorderOptions options;
    options.path = path_;
    options.run.name = "test";
    options.run.started_at = 1000;
    Result<std::unique_ptr<Recorder>> recorder = Recorder::Open(std::move(options));
    EXPECT_TRUE(recorder) << (recorder ? "" : recorder.error().Text());
    return recorder ? *std::move(recorder) : nullptr;
  }

  // All values of a query's first column, with spaces between.
  std::string Ask(const std::string& sql) const { return AskAll(path_, sql); }

  static int64_t Add(Recorder& recorder, std::string name) {
    LayerRow layer;
    layer.name = std::move(name);
    return recorder.AddLayer(std::move(layer), true);
  }

  fs::path folder_;
  std::string path_;
};

// A vector of FP32 values and the view of it.
struct Vector {
  explicit Vector(std::vector<float> of)
      : values(std::move(of)), shape{static_cast<int64_t>(values.size())} {}
  TensorView view() const { return {values.data(), DType::kFloat32, shape, {}}; }
  std::vector<float> values;
  int64_t shape[1];
};

void Forward(Recorder& recorder, int64_t layer, const TensorView& in, const TensorView& out) {
  if (recorder.Observe(layer, {&in, 1}, {&out, 1})) {
    recorder.Explain(layer, {&in, 1}, {&out, 1}, {});
  }
}

StepEnd Skipped(double loss, double scale) {
  StepEnd end;
  end.loss = loss;
  end.scale = scale;
  end.scale_after = scale / 2;
  end.skipped = true;
  return end;
}

// --- the loss while GradScaler looks for its scale ---

TEST_F(RecorderTest, ANanLossIsReportedFromTheFirstSkippedStepOn) {
  const auto recorder = Open();
  recorder->BeginStep(0);
  const std::vector<AlertRow> alerts = recorder->EndStep(Skipped(kNan, 65536));
  ASSERT_EQ(alerts.size(), 1u);
  EXPECT_EQ(alerts[0].type, AlertType::kLossNan);
  EXPECT_EQ(alerts[0].producer, 1);
}

TEST_F(RecorderTest, AnInfiniteLossIsLeftToTheSearchForFiveSkipsOnly) {
  const auto recorder = Open();
  std::vector<int64_t> steps;
  double scale = 65536;
  for (int64_t step = 0; step < 8; ++step, scale /= 2) {
    recorder->BeginStep(step);
    for (const AlertRow& alert : recorder->EndStep(Skipped(kInf, scale))) {
      EXPECT_EQ(alert.type, AlertType::kLossNan);
      steps.push_back(alert.step);
    }
  }
  EXPECT_EQ(steps, std::vector<int64_t>{5});
}

// --- a mask of -inf ---

TEST_F(RecorderTest, AMaskIsNoInfWhenTheScalerSkipsTheStep) {
  const auto recorder = Open();
  const int64_t mask = Add(*recorder, "mask"), weight = Add(*recorder, "weight");
  const Vector in({1, 2}), out({1, -std::numeric_limits<float>::infinity()});
  const ParameterView gradient{weight, out.view()};
  recorder->BeginStep(0);
  Forward(*recorder, mask, in.view(), out.view());
  recorder->Gradients({&gradient, 1}, 1);
  EXPECT_TRUE(recorder->EndStep(Skipped(0.5, 65536)).empty());
  // Without a scaler that explains the gradient it is one.
  recorder->BeginStep(1);
  Forward(*recorder, mask, in.view(), out.view());
  recorder->Gradients({&gradient, 1}, 1);
  StepEnd end;
  end.loss = 0.5;
  const std::vector<AlertRow> alerts = recorder->EndStep(end);
  ASSERT_EQ(alerts.size(), 1u);
  EXPECT_EQ(alerts[0].type, AlertType::kInf);
  EXPECT_EQ(alerts[0].layer, mask);
}

TEST_F(RecorderTest, AMaskDoesNotHideGradientsThatNoScaleExplains) {
  const auto recorder = Open();
  const int64_t mask = Add(*recorder, "mask"), weight = Add(*recorder, "weight");
  const Vector in({1, 2}), out({1, -std::numeric_limits<float>::infinity()});
  const ParameterView gradient{weight, out.view()};
  std::vector<std::string> phases;
  double scale = 65536;
  for (int64_t step = 0; step < 16; ++step, scale /= 2) {
    recorder->BeginStep(step);
    Forward(*recorder, mask, in.view(), out.view());
    recorder->Gradients({&gradient, 1}, 1 / scale);
    for (const AlertRow& alert : recorder->EndStep(Skipped(0.5, scale))) {
      if (alert.type == AlertType::kInf) phases.emplace_back(alert.phase.text());
    }
  }
  EXPECT_EQ(phases, std::vector<std::string>{"backward"});
}

// --- several runs in one file ---

TEST_F(RecorderTest, TwoRunsAtOnceKeepTheirLayersApart) {
  const auto first = Open(), second = Open();
  const Vector in({1, 2}), out({3, 4});
  std::vector<int64_t> layers;
  for (int i = 0; i < 3; ++i) {
    Add(*first, "a" + std::to_string(i));
    Add(*second, "b" + std::to_string(i));
  }
  for (Recorder* recorder : {second.get(), first.get()}) {
    recorder->BeginStep(0);
    for (int64_t layer = 1; layer <= 3; ++layer) Forward(*recorder, layer, in.view(), out.view());
    recorder->EndStep({});
  }
  ASSERT_TRUE(first->Close("closed"));
  ASSERT_TRUE(second->Close("closed"));
  EXPECT_EQ(Ask("SELECT name FROM layer WHERE run_id = 1 ORDER BY layer_id"), "a0 a1 a2");
  EXPECT_EQ(Ask("SELECT name FROM layer WHERE run_id = 2 ORDER BY layer_id"), "b0 b1 b2");
  EXPECT_EQ(Ask("SELECT count(*) FROM tensor_stats t JOIN layer l USING (layer_id) WHERE "
                "l.run_id = t.run_id"),
            "12");  // an input and an output each
  EXPECT_EQ(Ask("SELECT position FROM layer ORDER BY layer_id"), "0 1 2 0 1 2");
}

TEST_F(RecorderTest, RunsThatStartTogetherOnANewFileAllGetIt) {
  constexpr int kRuns = 4, kRounds = 8;
  for (int round = 0; round < kRounds; ++round) {
    path_ = (folder_ / ("together" + std::to_string(round) + ".db")).string();
    std::latch ready(kRuns);
    std::vector<std::thread> threads;
    for (int i = 0; i < kRuns; ++i) {
      threads.emplace_back([&] {
        ready.arrive_and_wait();
        const auto recorder = Open();
        const bool closed = recorder && recorder->Close("closed");
        EXPECT_TRUE(closed);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(Ask("SELECT count(*) FROM run WHERE end_reason = 'closed'"), std::to_string(kRuns));
  }
}

TEST_F(RecorderTest, LayersAreInTheFileBeforeAnySampleOfThem) {
  const auto recorder = Open();
  Add(*recorder, "early");
  recorder->BeginStep(0);
  EXPECT_EQ(Ask("SELECT name FROM layer"), "early");
  EXPECT_EQ(Add(*recorder, "late"), 0);
  ASSERT_TRUE(recorder->Close("closed"));
  EXPECT_EQ(Ask("SELECT name FROM layer"), "early");
}

TEST_F(RecorderTest, ARunWithoutAStepHasItsLayers) {
  const auto recorder = Open();
  Add(*recorder, "only");
  ASSERT_TRUE(recorder->Close("closed"));
  EXPECT_EQ(Ask("SELECT name FROM layer"), "only");
}

// --- a step that never ends ---

TEST_F(RecorderTest, AStepKeepsSoManySamplesAndCountsTheRest) {
  const auto recorder = Open();
  constexpr int64_t kLayers = 20;
  for (int64_t i = 0; i < kLayers; ++i) Add(*recorder, "l" + std::to_string(i));
  const Vector in({1, 2}), out({3, 4});
  recorder->BeginStep(0);
  constexpr int64_t kCalls = 1000;
  for (int64_t call = 0; call < kCalls; ++call) {
    for (int64_t layer = 1; layer <= kLayers; ++layer) {
      Forward(*recorder, layer, in.view(), out.view());
    }
  }
  recorder->EndStep({});
  ASSERT_TRUE(recorder->Close("closed"));
  EXPECT_EQ(Ask("SELECT count(*) FROM tensor_stats"), std::to_string(StepSamples::kMost));
  EXPECT_EQ(Ask("SELECT json_extract(detail, '$.count') FROM event WHERE type = "
                "'samples_dropped'"),
            std::to_string(2 * kCalls * kLayers - static_cast<int64_t>(StepSamples::kMost)));
}

}  // namespace
}  // namespace mpnanny
