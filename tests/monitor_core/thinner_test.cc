// A database past its limit: what is thinned, what stays, and that the file stops growing.
#include "monitor/core/thinner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

#include "base/process_info.h"
#include "monitor/core/writer.h"
#include "tests/monitor_core/observed.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

class ThinnerTest : public testing::Test {
 protected:
  static constexpr int64_t kLayers = 50, kMegabyte = 1 << 20;

  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("mpnanny-thinner-" + std::to_string(CurrentProcess()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    path_ = (folder_ / "a.db").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<Writer> Open(int64_t max_bytes) {
    Result<RunDatabase> database = RunDatabase::Open(path_);
    EXPECT_TRUE(database);
    RunRow run;
    run.name = "thinned";
    EXPECT_TRUE(database->StartRun(run));
    auto writer = std::make_unique<Writer>(*std::move(database), max_bytes);
    EXPECT_TRUE(writer->Start());
    return writer;
  }

  // A sampled step of every layer; `absmax` of layer 1, the others have 1.
  static void Put(Writer& writer, int64_t step, double absmax = 1, int64_t nan = 0) {
    StepRow row;
    row.step = step;
    row.flags = kSampled;
    writer.Put(row);
    for (int64_t layer = 1; layer <= kLayers; ++layer) {
      SampleRow sample;
      sample.step = step;
      sample.layer = layer;
      sample.stats.numel = sample.stats.finite = 64;
      sample.stats.absmax = sample.stats.max = layer == 1 ? absmax : 1;
      if (layer == 2) sample.stats.nan = nan;
      sample.exponents = std::string(180, 'e');
      writer.Put(std::move(sample));
    }
    if (step % 20 == 0) writer.Flush();
  }

  std::string Ask(const std::string& sql) const { return AskAll(path_, sql); }
  int64_t Rows(const std::string& where) const {
    return std::stoll(Ask("SELECT count(*) FROM tensor_stats WHERE " + where));
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(ThinnerTest, TheFileStopsGrowingAndStepsTheGridExtremesAndAlertsStay) {
  constexpr int64_t kLimit = 14 * kMegabyte, kSteps = 4000;  // of about 60 MB
  auto writer = Open(kLimit);
  AlertRow alert;
  alert.id = 1;
  alert.step = alert.last_step = 1203;
  alert.type = AlertType::kNan;
  alert.severity = Severity::kError;
  alert.message = "planted";
  std::atomic<bool> done = false;
  int64_t reads = 0;
  std::thread reader([&] {  // holds nothing up, and is not held up: every query succeeds
    while (!done) {
      reads += Ask("SELECT count(*) > 0 FROM run") == "1";
      EXPECT_EQ(Ask("PRAGMA quick_check(1)"), "ok");
    }
  });
  for (int64_t step = 0; step < kSteps; ++step) {
    Put(*writer, step, step == 57 ? 900 : step == 63 ? 1e-9 : 1, step == 77 ? 5 : 0);
    if (step == 1203) writer->Put(alert);
    // A pace that leaves the writer time, as a training does.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  done = true;
  reader.join();
  EXPECT_GT(reads, 0);
  const int64_t dropped = writer->dropped();
  ASSERT_TRUE(writer->Close(0, "closed"));

  EXPECT_LT(fs::file_size(path_), static_cast<uint64_t>(kLimit) * 5 / 4);
  EXPECT_EQ(Ask("PRAGMA integrity_check"), "ok");
  EXPECT_EQ(Ask("SELECT count(*) FROM step"), std::to_string(kSteps));
  EXPECT_GT(Rows("1"), 0);
  // Everything near the alert, and the newest.
  EXPECT_EQ(Rows("step BETWEEN 1003 AND 1403"), 401 * kLayers);
  // The extremes of the first hundred samples; what else is of those steps is gone.
  EXPECT_EQ(Ask("SELECT layer_id FROM tensor_stats WHERE step = 57"), "1");
  EXPECT_EQ(Ask("SELECT layer_id FROM tensor_stats WHERE step = 63"), "1");
  EXPECT_EQ(Ask("SELECT layer_id FROM tensor_stats WHERE step = 77"), "2");
  EXPECT_EQ(Rows("step = 51"), 0);
  // A grid stays whole.
  EXPECT_EQ(Rows("step = 0"), kLayers);
  EXPECT_GT(std::stoi(Ask("SELECT count(*) FROM event WHERE type = 'thinned'")), 0);
  EXPECT_EQ(Ask("SELECT count(*) FROM event WHERE type = 'thinned' AND "
                "json_extract(detail, '$.rows') > 0 AND json_extract(detail, '$.one_in') >= 10"),
            Ask("SELECT count(*) FROM event WHERE type = 'thinned'"));
  printf("%lld rows kept of %lld, file %.1f MB, dropped %lld, reads %lld\n",
         static_cast<long long>(Rows("1")), static_cast<long long>(kSteps * kLayers),
         static_cast<double>(fs::file_size(path_)) / kMegabyte, static_cast<long long>(dropped),
         static_cast<long long>(reads));
}

TEST_F(ThinnerTest, OneInTenStaysWholeWhereThatIsEnough) {
  {
    auto writer = Open(int64_t{1} << 40);
    for (int64_t step = 0; step < 1000; ++step) Put(*writer, step);
    ASSERT_TRUE(writer->Close(0, "closed"));
  }
  const auto size = static_cast<int64_t>(fs::file_size(path_));
  // The next run finds the file past its limit; the old run is thinned while the new one records.
  auto writer = Open(size * 9 / 10);
  writer->Put(StepRow{});
  for (int i = 0; i < 200 && Rows("1") > 950 * kLayers; ++i) {
    writer->Flush();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ASSERT_TRUE(writer->Close(0, "closed"));
  const int64_t left = std::stoll(Ask("SELECT count(DISTINCT step) FROM tensor_stats"));
  EXPECT_LT(left, 950);
  EXPECT_EQ(Rows("step < 100"), 10 * kLayers);  // oldest first; no extremes: all are alike
  EXPECT_EQ(Rows("step % 10 = 0"), 100 * kLayers);
  EXPECT_EQ(Rows("step >= 900"), 100 * kLayers);  // there was no need
  EXPECT_EQ(Ask("SELECT count(*) FROM step WHERE run_id = 1"), "1000");
  EXPECT_EQ(static_cast<int64_t>(fs::file_size(path_)), size);
}

TEST_F(ThinnerTest, WhereNothingMayBeThinnedNewSamplesAreDroppedAndCounted) {
  constexpr int64_t kLimit = 2 * kMegabyte;
  auto writer = Open(kLimit);
  AlertRow alert;
  alert.type = AlertType::kNan;
  alert.severity = Severity::kError;
  alert.message = "planted";
  for (int64_t step = 0; step < 600; ++step) {
    if (step % 100 == 0) {
      alert.id = alert.step = alert.last_step = step;
      writer->Put(alert);
    }
    Put(*writer, step);
  }
  const int64_t dropped = writer->dropped();
  EXPECT_GT(dropped, 0);
  ASSERT_TRUE(writer->Close(0, "closed"));
  EXPECT_LT(fs::file_size(path_), static_cast<uint64_t>(kLimit) * 5 / 4);
  EXPECT_EQ(Rows("1"), 600 * kLayers - dropped);
  EXPECT_EQ(Ask("SELECT sum(json_extract(detail, '$.count')) FROM event WHERE type = "
                "'samples_dropped'"),
            std::to_string(dropped));
  EXPECT_EQ(Ask("SELECT count(*) FROM step"), "600");
}

}  // namespace
}  // namespace mpnanny
