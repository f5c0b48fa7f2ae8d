// Durability: a process that records is killed (SIGKILL) at random moments, again and again in the
// same file. MPNANNY_KILLS sets how often (default 20), MPNANNY_SEED the moments; both are printed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/process_info.h"
#include "engines/runs/samples.h"
#include "engines/runs/steps.h"
#include "monitor/core/recorder.h"
#include "monitor/core/writer.h"

namespace mpnanny {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxSteps = 1 << 20;
constexpr int64_t kInterval = 10;
constexpr int kLayers = 40;

// What docs/monitor_files.md promises: of samples and events a kill costs at most the last second.
// It is measured on a clock of the writing process: how often a thread of it, which sleeps kTick
// each time, came to run. Where the machine is too busy to run that process, its clock stands, too,
// so the promise holds on every machine.
constexpr std::chrono::milliseconds kTick(10);
constexpr int64_t kRestTicks = 1000 / kTick.count();
static_assert(Writer::kFlushSeconds <= 0.5, "what is queued waits for half a second at most");

// What the writing process tells in memory that outlives it.
struct Progress {
  std::atomic<int64_t> run{0};
  char live[1024];                // the file that it writes
  std::atomic<int64_t> ticks{0};  // its clock
  std::atomic<int64_t> steps{0};  // that have ended
  int64_t ended[kMaxSteps];       // when, of each, in ticks
};

Progress* Shared() {
  void* memory =
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) Progress;
}

// Records until it is killed: a sample of every layer, with its exponents, each ten steps, and with
// it an event.
[[noreturn]] void Write(const std::string& path, bool network, int64_t first,
                        std::chrono::microseconds pause, Progress* progress) {
  RecorderOptions options;
  options.path = path;
  options.network = network;
  options.run.name = "killed";
  options.run.started_at = UnixSeconds();
  options.run.trace_interval = kInterval;
  options.run.environment = "{\"host\":\"" + HostName() + "\"}";
  Result<std::unique_ptr<Recorder>> opened = Recorder::Open(std::move(options));
  if (!opened || (!network && !(*opened)->note().empty())) {
    fprintf(stderr, "%s\n", opened ? (*opened)->note().c_str() : opened.error().Text().c_str());
    _exit(3);
  }
  Recorder& recorder = **opened;
  std::thread([progress] {
    while (true) {
      std::this_thread::sleep_for(kTick);
      ++progress->ticks;
    }
  }).detach();
  for (int i = 0; i < kLayers; ++i) {
    LayerRow layer;
    layer.name = "layer" + std::to_string(i);
    recorder.AddLayer(std::move(layer), true);
  }
  const std::vector<float> values(64, 0.5f);
  const int64_t shape[] = {64};
  const TensorView view{values.data(), DType::kFloat32, shape, {}};
  snprintf(progress->live, sizeof(progress->live), "%s", recorder.path().c_str());
  progress->run = recorder.run_id();
  for (int64_t step = first; step - first < kMaxSteps; ++step) {
    const bool sampled = recorder.BeginStep(step);
    for (int64_t layer = 1; sampled && layer <= kLayers; ++layer) {
      recorder.Observe(layer, {&view, 1}, {&view, 1});
    }
    if (sampled) recorder.Event(step, "mark", "");
    StepEnd end;
    end.at = UnixSeconds();
    end.loss = static_cast<double>(step);
    recorder.EndStep(end);
    progress->ended[step - first] = progress->ticks;
    progress->steps = step - first + 1;
    if (!recorder.failure().empty()) _exit(4);
    std::this_thread::sleep_for(pause);
  }
  _exit(5);
}

std::string AskCopy(const std::string& path, const std::string& sql) {
  sqlite3* connection = nullptr;
  if (sqlite3_open_v2(path.c_str(), &connection, SQLITE_OPEN_READWRITE, nullptr) != SQLITE_OK)
    return std::string("cannot be opened: ") + sqlite3_errmsg(connection);
  sqlite3_stmt* statement = nullptr;
  std::string text;
  if (sqlite3_prepare_v2(connection, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK)
    text = sqlite3_errmsg(connection);
  else if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_text(statement, 0) != nullptr)
    text = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
  sqlite3_finalize(statement);
  sqlite3_close(connection);
  return text;
}

struct Figures {
  int killed = 0, before_the_run = 0, opened = 0, sound = 0, published = 0;
  int64_t steps = 0, missing = 0, from_ring = 0, samples_missing = 0, events_missing = 0;
  int64_t old_samples = 0;  // that were due for longer than the promise allows, and looked for
  int64_t oldest_sample = 0, oldest_event = 0;  // age of the newest one at the kill, in ticks
};

// The newest sampled step that ended, its age at the kill `at` (ticks), and whether older ones are there.
void CheckRest(const Progress& progress, int64_t first, int64_t at, const std::string& path,
               runs::Source& source, Figures& figures) {
  const std::string run = std::to_string(progress.run);
  int64_t newest_sample = progress.ended[0], newest_event = progress.ended[0];
  for (int64_t i = 0; i < progress.steps; ++i) {
    const int64_t step = first + i;
    if (i != 0 && step % kInterval != 0) continue;
    const Result<std::vector<runs::TensorRow>> sample = runs::ReadSample(source, step);
    ASSERT_TRUE(sample) << sample.error().Text();
    const bool whole = sample->size() == 2 * kLayers;  // inputs and outputs
    const bool marked =
        AskCopy(path, "SELECT 1 FROM event WHERE type = 'mark' AND run_id = " + run +
                          " AND step = " + std::to_string(step)) == "1";
    if (whole) newest_sample = progress.ended[i];
    if (marked) newest_event = progress.ended[i];
    if (at - progress.ended[i] <= kRestTicks) continue;
    ++figures.old_samples;
    figures.samples_missing += !whole;
    figures.events_missing += !marked;
  }
  figures.oldest_sample = std::max(figures.oldest_sample, at - newest_sample);
  figures.oldest_event = std::max(figures.oldest_event, at - newest_event);
}

void CheckSteps(const Progress& progress, int64_t first, runs::Source& source, Figures& figures) {
  std::set<int64_t> found;
  const auto read = runs::ForEachStep(source, {}, [&](const runs::StepRow& row) {
    if (row.loss == static_cast<double>(row.step)) found.insert(row.step);
    figures.from_ring += row.only_in_ring;
    return true;
  });
  ASSERT_TRUE(read) << read.error().Text();
  figures.steps += progress.steps;
  for (int64_t i = 0; i < progress.steps; ++i) figures.missing += !found.contains(first + i);
}

int Number(const char* variable, int otherwise) {
  const char* value = getenv(variable);
  return value != nullptr ? atoi(value) : otherwise;
}

// A file that may not be there yet, or be empty.
bool IsSound(const std::string& path) {
  if (!fs::exists(path) || fs::file_size(path) == 0) return true;
  const std::string integrity = AskCopy(path, "PRAGMA integrity_check");
  EXPECT_EQ(integrity, "ok") << path;
  return integrity == "ok";
}

void KillOften(int kills, bool network) {
  const auto seed = static_cast<unsigned>(
      Number("MPNANNY_SEED", static_cast<int>(std::random_device()() & 0x7fffffff)));
  std::mt19937 random(seed);
  const fs::path folder =
      fs::temp_directory_path() / ("mpnanny-kill-" + std::to_string(CurrentProcess()));
  constexpr int kKillsPerFile = 8;
  // The fastest is about 4,000 steps a second, more than Python can make.
  const std::chrono::microseconds pauses[] = {std::chrono::microseconds(200),
                                              std::chrono::microseconds(1000),
                                              std::chrono::microseconds(5000)};
  Figures figures;
  std::string path;
  int64_t first = 0;
  for (int kill_number = 0; kill_number < kills; ++kill_number) {
    if (kill_number % kKillsPerFile == 0) {
      fs::remove_all(folder);
      fs::create_directories(folder / "node");
      setenv("TMPDIR", (folder / "node").c_str(), 1);  // where live files go
      path = (folder / "metrics.db").string();
      first = 0;
    }
    Progress* progress = Shared();
    ASSERT_NE(progress, nullptr);
    // The first is so slow that only time, and no number of steps, makes the recorder write.
    const std::chrono::microseconds pause =
        kill_number == 0 ? std::chrono::milliseconds(20) : pauses[random() % 3];
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) Write(path, network, first, pause, progress);
    // A third of the moments lie in the first 30 ms, where the file is made and the ring read.
    const unsigned within = random() % 3 == 0 ? 30'000 : 1'200'000;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % within));
    // The first is late, so that there is something old to find however few there are.
    for (int i = 0; kill_number == 0 && progress->ticks < 2 * kRestTicks && i < 6000; ++i) {
      std::this_thread::sleep_for(kTick);
    }
    const int64_t at = progress->ticks;
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself: " << WEXITSTATUS(status);
    ++figures.killed;
    const bool began = progress->run != 0;
    const std::string live = began ? progress->live : path;
    figures.sound += IsSound(path) && IsSound(live);
    figures.published += network && AskCopy(path, "SELECT count(*) > 0 FROM run") == "1";
    if (began) {
      Result<runs::Source> source = runs::OpenRun(live + "#" + std::to_string(progress->run),
                                                  AllowedRoots::Unrestricted(), CancelToken());
      ASSERT_TRUE(source) << source.error().Text();
      ++figures.opened;
      if (progress->steps > 0) {
        EXPECT_EQ(source->run.status, runs::Status::kKilled);
        CheckSteps(*progress, first, *source, figures);
        CheckRest(*progress, first, at, live, *source, figures);
      }
      first += progress->steps;
    } else {
      ++figures.before_the_run;
    }
    munmap(progress, sizeof(Progress));
  }
  fs::remove_all(folder);
  unsetenv("TMPDIR");
  printf(
      "kills %d (seed %u), %d before the run began; opened %d, integrity ok %d; steps %lld, "
      "missing "
      "%lld, only in the ring %lld; older than %lld ticks: %lld samples, missing %lld, events missing %lld; "
      "newest at the kill: sample %lld, event %lld ticks old%s\n",
      figures.killed, seed, figures.before_the_run, figures.opened, figures.sound,
      static_cast<long long>(figures.steps), static_cast<long long>(figures.missing),
      static_cast<long long>(figures.from_ring), static_cast<long long>(kRestTicks),
      static_cast<long long>(figures.old_samples), static_cast<long long>(figures.samples_missing),
      static_cast<long long>(figures.events_missing), static_cast<long long>(figures.oldest_sample),
      static_cast<long long>(figures.oldest_event),
      network ? ("; published copies found " + std::to_string(figures.published)).c_str() : "");
  EXPECT_EQ(figures.opened + figures.before_the_run, kills);
  EXPECT_EQ(figures.sound, kills);
  EXPECT_EQ(figures.missing, 0);
  EXPECT_GT(figures.old_samples, 0);
  EXPECT_EQ(figures.samples_missing, 0);
  EXPECT_EQ(figures.events_missing, 0);
  EXPECT_GT(figures.steps, 10);
  EXPECT_TRUE(!network || figures.published > 0);
}

TEST(Kill, AtAnyMomentTheDatabaseOpensAndNoStepIsMissing) {
  KillOften(Number("MPNANNY_KILLS", 16), false);
}

TEST(Kill, OnANetworkFileSystemTheCopyOpensAndTheLiveFileHasEveryStep) {
  KillOften(std::max(Number("MPNANNY_KILLS", 16) / 4, 1), true);
}

}  // namespace
}  // namespace mpnanny
