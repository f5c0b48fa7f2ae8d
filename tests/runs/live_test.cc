// Runs that are being written: a process with the monitor's own recorder writes as fast as it can
// while every tool is asked, over and over.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <limits>
#include <thread>

#include "base/process_info.h"
#include "monitor/core/recorder.h"
#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace {

constexpr int64_t kLayers = 20;
constexpr int64_t kBadFrom = 300;

// Writes steps until it is killed; from kBadFrom on the fourth layer gives Inf.
[[noreturn]] void WriteForever(const std::string& path) {
  RecorderOptions options;
  options.path = path;
  options.run.name = "live";
  options.run.started_at = UnixSeconds();
  options.run.precision = Precision::kFp16;
  options.run.trace_interval = 5;
  options.run.environment = DumpJson({{"host", HostName()}});
  auto recorder = Recorder::Open(std::move(options));
  if (!recorder) _exit(3);
  for (int64_t i = 1; i <= kLayers; ++i) {
    LayerRow layer;
    layer.name = "blocks." + std::to_string(i);
    layer.type = "Linear";
    (*recorder)->AddLayer(layer, true);
  }
  const std::vector<float> good(64, 0.5F);
  const std::vector<float> bad(64, std::numeric_limits<float>::infinity());
  const std::vector<int64_t> shape = {64};
  for (int64_t step = 0;; ++step) {
    (*recorder)->BeginStep(step);
    const bool broken = step >= kBadFrom;
    for (int64_t i = 1; i <= kLayers; ++i) {
      const TensorView in{(broken && i > 4 ? bad : good).data(), DType::kFloat32, shape, {}};
      const TensorView out{(broken && i >= 4 ? bad : good).data(), DType::kFloat32, shape, {}};
      if ((*recorder)->Observe(i, {&in, 1}, {&out, 1})) {
        (*recorder)->Explain(i, {&in, 1}, {&out, 1}, {});
      }
    }
    StepEnd end;
    end.at = UnixSeconds();
    end.loss = broken ? std::numeric_limits<double>::quiet_NaN() : 1.0;
    end.scale = 1024;
    (*recorder)->EndStep(end);
    if (step % 50 == 49) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

class Trainer {
 public:
  explicit Trainer(const std::string& path) : pid_(fork()) {
    if (pid_ == 0) WriteForever(path);
  }
  ~Trainer() { Kill(); }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_;
};

int64_t StepsOf(const Json& summary) { return summary["steps"].get<int64_t>(); }

TEST(LiveTest, EveryToolAnswersWhileTheMonitorWrites) {
  TempFolder folder;
  Trainer trainer(folder.File("metrics.db"));
  const auto began = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  // Until it has written anything there is no run: that is said, and is no failure.
  while (!Call("run_summary", {{"run", "metrics.db"}}, folder.path())) {
    ASSERT_LT(seconds(), 60);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  int64_t steps = 0, listed_steps = 0, alerts = 0, first_bad = -1;
  int rounds = 0;
  const double until = seconds() + 3;
  while (seconds() < until || first_bad < 0) {
    ASSERT_LT(seconds(), 90);
    ++rounds;
    auto summary = Call("run_summary", {{"run", "metrics.db"}}, folder.path());
    ASSERT_TRUE(summary) << summary.error().Text();
    const Json& s = summary->structured;
    EXPECT_EQ(s["status"], "running");
    EXPECT_GE(StepsOf(s), steps) << "steps went back";
    steps = StepsOf(s);
    // One answer is one state: no step is missing in between, and all losses fit it.
    if (steps > 0) EXPECT_EQ(s["last_step"], steps - 1);
    EXPECT_EQ(s["nonfinite_losses"], std::max<int64_t>(0, steps - kBadFrom));

    auto listed = Call("list_runs", {{"path", "."}}, folder.path());
    ASSERT_TRUE(listed) << listed.error().Text();
    ASSERT_EQ(listed->structured["total"], 1) << listed->text;
    EXPECT_GE(listed->structured["runs"][0]["steps"], listed_steps);
    listed_steps = listed->structured["runs"][0]["steps"].get<int64_t>();

    auto queried = Call("query_alerts", {{"run", "metrics.db"}}, folder.path());
    ASSERT_TRUE(queried) << queried.error().Text();
    EXPECT_GE(queried->structured["total"], alerts) << "alerts went away";
    alerts = queried->structured["total"].get<int64_t>();

    auto diagnosed = Call("diagnose_run", {{"run", "metrics.db"}}, folder.path());
    ASSERT_TRUE(diagnosed) << diagnosed.error().Text();
    const Json& bad = diagnosed->structured["first_bad"];
    if (first_bad >= 0) {
      ASSERT_FALSE(bad.is_null()) << "a failure went away";
      EXPECT_EQ(bad["step"], first_bad);
    } else if (!bad.is_null()) {
      first_bad = bad["step"].get<int64_t>();
    }
    for (const Tool& tool : AllTools()) {  // those that are there beside these
      if (tool.definition.name != "query_stats") continue;
      auto stats = Call("query_stats", {{"run", "metrics.db"}, {"metric", "loss"}}, folder.path());
      ASSERT_TRUE(stats) << stats.error().Text();
    }
  }
  EXPECT_EQ(first_bad, kBadFrom);
  EXPECT_GT(rounds, 3);
  EXPECT_GT(alerts, 0);
  trainer.Kill();
  auto after = Call("run_summary", {{"run", "metrics.db"}}, folder.path());
  ASSERT_TRUE(after) << after.error().Text();
  EXPECT_EQ(after->structured["status"], "killed");
  EXPECT_GE(StepsOf(after->structured), steps) << "steps were lost to the kill";
}

}  // namespace
}  // namespace mpnanny::test
