// What the trace of a dense step finds, and the alert that it explains.
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <string>

#include "base/os_mapped_file.h"
#include "base/process_info.h"
#include "monitor/core/recorder.h"
#include "tests/monitor_core/observed.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

class OriginsTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("mpnanny-origins-" + std::to_string(CurrentProcess()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    path_ = (folder_ / "a.db").string();
    recorder_ = Open();
    ASSERT_NE(recorder_, nullptr);
    Add(*recorder_, "first");
    Add(*recorder_, "second");
  }
  void TearDown() override {
    recorder_.reset();
    fs::remove_all(folder_);
  }

  std::unique_ptr<Recorder> Open() const {
    RecorderOptions options;
    options.path = path_;
    options.run.name = "test";
    Result<std::unique_ptr<Recorder>> recorder = Recorder::Open(std::move(options));
    return recorder ? *std::move(recorder) : nullptr;
  }

  static void Add(Recorder& recorder, std::string name) {
    LayerRow layer;
    layer.name = std::move(name);
    recorder.AddLayer(std::move(layer), true);
  }

  static NanOrigin Origin(std::string phase, std::string name) {
    NanOrigin origin;
    origin.source = "train.py:7";
    origin.message = name + " made 3 -Inf.";
    origin.operators = R"([{"operator":")" + name + R"("}])";
    origin.phase = Word<Phase>(std::move(phase));
    origin.name = std::move(name);
    origin.count = 3;
    return origin;
  }

  std::vector<AlertRow> Step(int64_t step, std::optional<double> loss,
                             std::optional<NanOrigin> origin = std::nullopt) {
    recorder_->BeginStep(step);
    if (origin) recorder_->SeeOrigin(*std::move(origin));
    StepEnd end;
    end.loss = loss;
    return recorder_->EndStep(end);
  }

  // All values of a query's first column, with a bar between.
  std::string Ask(const std::string& sql) const {
    recorder_->Flush();
    return AskAll(path_, sql, "|");
  }

  static constexpr const char* kAlerts =
      "SELECT a.step || ' ' || a.type || ' ' || a.phase || ' ' || ifnull(l.name, '-') || ' ' || "
      "ifnull(l.source, '-') || ' ' || repeats FROM alert a LEFT JOIN layer l USING (layer_id) "
      "ORDER BY alert_id";

  fs::path folder_;
  std::string path_;
  std::unique_ptr<Recorder> recorder_;
};

TEST_F(OriginsTest, TheAlertOfTheFirstStepIsExplainedByALaterOne) {
  EXPECT_EQ(Step(1, kNotANumber).size(), 1u);
  EXPECT_EQ(Ask(kAlerts), "1 LOSS_NAN loss - - 1");
  EXPECT_TRUE(Step(2, kNotANumber, Origin("loss", "aten.log")).empty());
  EXPECT_EQ(recorder_->TakeExplained(),
            "LOSS_NAN of step 1: Traced at step 2: aten.log made 3 -Inf.");
  EXPECT_EQ(recorder_->TakeExplained(), "");
  EXPECT_TRUE(Step(3, kNotANumber, Origin("loss", "aten.log")).empty());
  EXPECT_EQ(recorder_->TakeExplained(), "");  // it is known
  EXPECT_EQ(Ask(kAlerts), "1 LOSS_NAN loss aten.log train.py:7 3");
  EXPECT_EQ(Ask("SELECT count(*) FROM alert WHERE message LIKE '%Traced at step 2: aten.log made%'"
                " AND message NOT LIKE '%step 3%' AND producer = 1"),
            "1");
  EXPECT_EQ(Ask("SELECT type FROM layer WHERE name = 'aten.log'"), "operator");
  EXPECT_EQ(Ask("SELECT detail FROM alert"), R"({"where":"loss","made":["nan"],"traced_step":2,)"
                                             R"("operators":[{"operator":"aten.log"}]})");
}

TEST_F(OriginsTest, AnOriginInAStepWithoutAnErrorIsNotReported) {
  EXPECT_TRUE(Step(1, 1.0, Origin("forward", "aten.exp")).empty());
  EXPECT_EQ(Step(2, kNotANumber).size(), 1u);
  EXPECT_EQ(Ask(kAlerts), "2 LOSS_NAN loss - - 1");
  EXPECT_EQ(Ask("SELECT count(*) FROM layer"), "2");
}

TEST_F(OriginsTest, WhatAnOptimizerWritesIsReportedAStepLater) {
  EXPECT_TRUE(Step(1, 1.0, Origin("optimizer", "aten.mul_")).empty());
  const std::vector<AlertRow> reported = Step(2, kNotANumber);
  // The loss has a producer of its own phase as far as the loss is asked: it is explained.
  EXPECT_EQ(reported.size(), 1u);
  EXPECT_EQ(Ask(kAlerts), "2 LOSS_NAN loss aten.mul_ train.py:7 1");
  EXPECT_TRUE(Step(3, 1.0, Origin("optimizer", "aten.add_")).empty());
  EXPECT_TRUE(Step(4, 1.0).empty());
  Step(5, kNotANumber);  // too late
  EXPECT_EQ(Ask("SELECT count(*) FROM layer WHERE name = 'aten.add_'"), "0");
}

TEST_F(OriginsTest, WhereNoAlertFitsItIsOneOfItsOwn) {
  const float bad[] = {static_cast<float>(kNotANumber)};
  const float good[] = {1};
  const int64_t shape[] = {1};
  const TensorView in{good, DType::kFloat32, shape, {}}, out{bad, DType::kFloat32, shape, {}};
  recorder_->BeginStep(1);
  ASSERT_TRUE(recorder_->Observe(1, {&in, 1}, {&out, 1}));
  recorder_->Explain(1, {&in, 1}, {&out, 1}, {});
  recorder_->SeeOrigin(Origin("backward", "aten.div"));
  StepEnd end;
  end.loss = 1.0;
  const std::vector<AlertRow> reported = recorder_->EndStep(end);
  ASSERT_EQ(reported.size(), 2u);
  EXPECT_EQ(reported[1].producer, 1);
  EXPECT_EQ(Ask(kAlerts), "1 NAN forward first - 1|1 INF backward aten.div train.py:7 1");
  EXPECT_EQ(Ask("SELECT detail FROM alert ORDER BY alert_id"),
            R"({"where":"module","made":["nan"],"count":1,"of":1,"inputs":"finite",)"
            R"("largest_input":1,"dtype":"float32"}|)"
            R"({"traced_step":1,"operators":[{"operator":"aten.div"}]})");
}

TEST_F(OriginsTest, OperatorsOfTwoRunsInOneFileKeepApart) {
  Step(1, kNotANumber);
  const std::unique_ptr<Recorder> other = Open();  // as another process would
  ASSERT_NE(other, nullptr);
  Add(*other, "theirs");
  other->BeginStep(0);
  other->Flush();
  Step(2, kNotANumber, Origin("loss", "aten.log"));
  EXPECT_EQ(Ask("SELECT name FROM layer ORDER BY layer_id"), "first|second|theirs|aten.log");
  EXPECT_EQ(Ask("SELECT run_id FROM layer ORDER BY layer_id"), "1|1|2|1");
  EXPECT_EQ(Ask(kAlerts), "1 LOSS_NAN loss aten.log train.py:7 2");
  EXPECT_TRUE(other->Close("closed"));
}

}  // namespace
}  // namespace mpnanny
