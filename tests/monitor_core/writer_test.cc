#include "monitor/core/writer.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>

#include "base/process_info.h"
#include "monitor/core/catalogue.h"
#include "monitor/core/recorder.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder()
      : path_(fs::temp_directory_path() /
              ("mpnanny-" + std::to_string(CurrentProcess()) + "-" +
               testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  std::string File(const char* name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

// One value of a query as text; "NULL" for NULL.
std::string Ask(const std::string& file, const std::string& sql) {
  sqlite3* connection = nullptr;
  EXPECT_EQ(sqlite3_open_v2(file.c_str(), &connection, SQLITE_OPEN_READWRITE, nullptr), SQLITE_OK);
  sqlite3_stmt* statement = nullptr;
  EXPECT_EQ(sqlite3_prepare_v2(connection, sql.c_str(), -1, &statement, nullptr), SQLITE_OK)
      << sqlite3_errmsg(connection);
  std::string text = "no row";
  if (sqlite3_step(statement) == SQLITE_ROW) {
    const auto* value = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    text = value != nullptr ? value : "NULL";
  }
  sqlite3_finalize(statement);
  sqlite3_close(connection);
  return text;
}

RecorderOptions Options(const std::string& path) {
  RecorderOptions options;
  options.path = path;
  options.run.name = "test";
  options.run.started_at = 1000;
  return options;
}

std::unique_ptr<Recorder> Open(const std::string& path) {
  Result<std::unique_ptr<Recorder>> recorder = Recorder::Open(Options(path));
  EXPECT_TRUE(recorder) << (recorder ? "" : recorder.error().Text());
  return recorder ? *std::move(recorder) : nullptr;
}

TEST(RunDatabase, ANewFileHasTheSchemaAndExplainsItself) {
  const Folder folder;
  const std::string path = folder.File("a.db");
  ASSERT_TRUE(Open(path)->Close("closed"));
  EXPECT_EQ(Ask(path, "PRAGMA application_id"), std::to_string(0x4d504e59));
  EXPECT_EQ(Ask(path, "PRAGMA user_version"), "1");  // the oldest that reads it
  EXPECT_EQ(Ask(path, "SELECT count(*) FROM meaning"), std::to_string(MetricCatalogue().size()));
  EXPECT_EQ(Ask(path, "PRAGMA journal_mode"), "delete");
  EXPECT_EQ(Ask(path, "SELECT end_reason FROM run"), "closed");
  // Every column of the two tables of figures has a meaning or is a plain key.
  EXPECT_EQ(Ask(path,
                "SELECT group_concat(name) FROM (SELECT name FROM "
                "pragma_table_info('tensor_stats') WHERE name NOT IN "
                "('run_id','step','layer_id','kind','dtype') AND 'tensor_stats.' || name NOT IN "
                "(SELECT value FROM meaning WHERE what = 'column'))"),
            "NULL");
}

TEST(Recorder, NonFiniteFiguresBecomeNullAndFlags) {
  const Folder folder;
  const std::string path = folder.File("a.db");
  const auto recorder = Open(path);
  recorder->BeginStep(0);
  StepEnd end;
  end.at = 5;
  end.loss = std::numeric_limits<double>::quiet_NaN();
  recorder->EndStep(end);
  recorder->BeginStep(1);
  end.loss = -std::numeric_limits<double>::infinity();
  recorder->EndStep(end);
  ASSERT_TRUE(recorder->Close("closed"));
  EXPECT_EQ(Ask(path, "SELECT count(*) FROM step WHERE loss IS NULL"), "2");
  EXPECT_EQ(Ask(path, "SELECT flags & 3 FROM step WHERE step = 0"), "1");
  EXPECT_EQ(Ask(path, "SELECT flags & 3 FROM step WHERE step = 1"), "2");
}

TEST(Recorder, ATensorWithoutAFiniteElementHasCountsAndNoFigures) {
  const Folder folder;
  const std::string path = folder.File("a.db");
  const auto recorder = Open(path);
  LayerRow layer;
  layer.name = "l";
  const int64_t id = recorder->AddLayer(layer, true);
  const float values[] = {std::nanf(""), std::numeric_limits<float>::infinity()};
  const int64_t shape[] = {2};
  const TensorView view{values, DType::kFloat32, shape, {}};
  recorder->BeginStep(0);
  const float input[] = {1, 2};
  const TensorView in{input, DType::kFloat32, shape, {}};
  EXPECT_TRUE(recorder->Observe(id, std::span(&in, 1), std::span(&view, 1)));
  recorder->Explain(id, std::span(&in, 1), std::span(&view, 1), {});
  const std::vector<AlertRow> alerts = recorder->EndStep({});
  ASSERT_EQ(alerts.size(), 2u);
  EXPECT_EQ(alerts[0].type, AlertType::kInf);
  EXPECT_EQ(alerts[1].type, AlertType::kNan);
  EXPECT_EQ(alerts[0].producer, 1);
  ASSERT_TRUE(recorder->Close("closed"));
  EXPECT_EQ(Ask(path,
                "SELECT nan || ',' || posinf || ',' || coalesce(min, 'NULL') FROM tensor_stats "
                "WHERE kind = 1"),
            "1,1,NULL");
}

TEST(Recorder, TheSameAlertIsOneRowThatRepeats) {
  const Folder folder;
  const std::string path = folder.File("a.db");
  const auto recorder = Open(path);
  StepEnd end;
  end.loss = std::numeric_limits<double>::quiet_NaN();
  size_t fresh = 0;
  for (int64_t step = 0; step < 30; ++step) {
    recorder->BeginStep(step);
    fresh += recorder->EndStep(end).size();
  }
  end.loss = 1.0;
  for (int64_t step = 30; step < 300; ++step) {
    recorder->BeginStep(step);
    fresh += recorder->EndStep(end).size();
  }
  end.loss = std::numeric_limits<double>::quiet_NaN();
  recorder->BeginStep(300);
  fresh += recorder->EndStep(end).size();
  EXPECT_EQ(fresh, 2u);
  ASSERT_TRUE(recorder->Close("closed"));
  EXPECT_EQ(Ask(path, "SELECT group_concat(step || ':' || repeats || ':' || last_step) FROM alert"),
            "0:30:29,300:1:300");
}

TEST(Recorder, ARunThatWasNotClosedIsRecoveredFromItsRing) {
  const Folder folder;
  const std::string path = folder.File("a.db");
  {
    const auto recorder = Open(path);
    StepEnd end;
    end.loss = 2.5;
    for (int64_t step = 0; step < 1500; ++step) {
      recorder->BeginStep(step);
      recorder->EndStep(end);
    }
    // Destroyed without Close(), as in a process that dies; the batch in progress may or may not be
    // written.
  }
  {
    const auto recorder = Open(path);
    ASSERT_TRUE(recorder->Close("closed"));
  }
  EXPECT_EQ(Ask(path,
                "SELECT min(step) || ',' || max(step) || ',' || count(*) FROM step WHERE run_id = "
                "1 AND step >= 476"),
            "476,1499,1024");
  EXPECT_EQ(Ask(path, "SELECT count(*) FROM step WHERE loss = 2.5"),
            Ask(path, "SELECT count(*) FROM step"));
  EXPECT_EQ(Ask(path, "SELECT coalesce(end_reason, 'NULL') FROM run WHERE run_id = 1"), "NULL");
}

TEST(Recorder, OneRingHasOneOwnerAndOneStepOneSlot) {
  const Folder folder;
  const std::string path = folder.File("a.db");
  Result<FlightRecorder> ring = FlightRecorder::Open(path);
  ASSERT_TRUE(ring);
  ring->Start(7, 12.5, 100);
  StepRow row;
  row.step = 3;
  row.first_nonfinite_layer = 2;
  ring->Write(row);
  row.loss = 1.5;
  ring->Write(row);  // the optimizer ran after the block
  row.step = 4;
  ring->Write(row);
  const RingRemains remains = ring->Remains();
  EXPECT_EQ(remains.run_id, 7);
  ASSERT_EQ(remains.steps.size(), 2u);
  EXPECT_EQ(remains.steps[0].sequence, 1u);
  EXPECT_EQ(remains.steps[0].loss, 1.5);
  EXPECT_EQ(remains.steps[0].known, kKnownLoss);
  EXPECT_EQ(remains.steps[0].first_nonfinite_layer, 102);
  ring->MarkClosed();
  EXPECT_TRUE(ring->Remains().steps.empty());
}

TEST(Writer, SamplesThatDoNotFitAreDroppedAndCountedStepsAreNot) {
  const Folder folder;
  const std::string path = folder.File("a.db");
  Result<RunDatabase> database = RunDatabase::Open(path);
  ASSERT_TRUE(database);
  RunRow run;
  run.name = "test";
  ASSERT_TRUE(database->StartRun(run));
  // Another connection holds the write lock: the writer has to wait and its queue fills.
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  Writer writer(*std::move(database));
  ASSERT_TRUE(writer.Start());
  writer.Put(StepRow{});
  writer.FlushSoon();
  const auto put = static_cast<int64_t>(2 * Writer::kMaxSamples + 10);
  SampleRow sample;
  sample.layer = 1;
  for (int64_t i = 0; i < put; ++i) {
    sample.step = i;
    writer.Put(sample);
  }
  StepRow step;
  step.step = 1;
  writer.Put(step);
  EXPECT_GT(writer.dropped(), 0);
  EXPECT_EQ(sqlite3_exec(other, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(other);
  const int64_t dropped = writer.dropped();
  ASSERT_TRUE(writer.Close(2, "closed"));
  EXPECT_EQ(Ask(path, "SELECT count(*) FROM tensor_stats"), std::to_string(put - dropped));
  EXPECT_EQ(Ask(path, "SELECT count(*) FROM step"), "2");
  EXPECT_EQ(
      Ask(path,
          "SELECT sum(json_extract(detail, '$.count')) FROM event WHERE type = 'samples_dropped'"),
      std::to_string(dropped));
}

TEST(Writer, AFileThatIsLockedForLongIsWaitedForAndWhatDoesNotFitIsCounted) {
  const Folder folder;
  const std::string path = folder.File("a.db");
  Result<RunDatabase> database = RunDatabase::Open(path);
  ASSERT_TRUE(database);
  RunRow run;
  run.name = "test";
  ASSERT_TRUE(database->StartRun(run));
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  Writer writer(*std::move(database));
  ASSERT_TRUE(writer.Start());
  StepRow step;
  writer.Put(step);
  writer.FlushSoon();
  sqlite3_sleep(1600);  // longer than one attempt waits
  constexpr int64_t kMore = 100;
  for (int64_t i = 1; i <= static_cast<int64_t>(Writer::kMaxOthers) + kMore; ++i) {
    step.step = i;
    writer.Put(step);
  }
  EXPECT_EQ(writer.failure(), "");
  EXPECT_EQ(sqlite3_exec(other, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(other);
  ASSERT_TRUE(writer.Close(2, "closed"));
  EXPECT_EQ(Ask(path, "SELECT count(*) FROM step"), std::to_string(Writer::kMaxOthers + 1));
  EXPECT_EQ(Ask(path,
                "SELECT json_extract(detail, '$.others_so_far') FROM event WHERE type = "
                "'samples_dropped'"),
            std::to_string(kMore));
}

TEST(Recorder, ARingThatCannotBeBroughtInIsKeptForLater) {
  const Folder folder;
  const std::string path = folder.File("a.db");
  {
    const auto recorder = Open(path);
    for (int64_t step = 0; step < 10; ++step) {
      recorder->BeginStep(step);
      recorder->EndStep({});
    }
  }  // without Close(), as in a process that dies
  Ask(path, "DELETE FROM step WHERE step >= 5");  // as if they had not reached the file
  Ask(path, "CREATE TRIGGER no BEFORE INSERT ON step BEGIN SELECT raise(ABORT, 'not now'); END");
  {
    const auto recorder = Open(path);
    EXPECT_NE(recorder->note().find("is kept"), std::string::npos) << recorder->note();
    ASSERT_TRUE(recorder->Close("closed"));
  }
  EXPECT_EQ(Ask(path, "SELECT count(*) FROM step"), "5");
  Ask(path, "DROP TRIGGER no");
  ASSERT_TRUE(Open(path)->Close("closed"));
  EXPECT_EQ(Ask(path, "SELECT count(*) FROM step WHERE run_id = 1"), "10");
}

}  // namespace
}  // namespace mpnanny
