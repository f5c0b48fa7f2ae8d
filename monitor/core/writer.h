// Writes the run database from a thread of its own, so that training never waits for a disk.
//
// Owns the database and the thread. Put() may be called from any thread and only appends to a
// bounded queue; samples (and rows of a shadow step's profile, which come as many at once) that do
// not fit are dropped and counted (event samples_dropped), steps and alerts only when the disk
// hangs for so long that their own room is full, too. A batch is written every kFlushSeconds, at
// once when asked, and before the flight ring comes round. A file that another process has locked
// is waited for as long as the run goes on, and at its end for kMostCloseSeconds. When the database
// can no longer be written (a full disk), the thread ends, failure() says why, and everything put
// afterwards is only counted.
#ifndef MPNANNY_MONITOR_CORE_WRITER_H_
#define MPNANNY_MONITOR_CORE_WRITER_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/result.h"
#include "monitor/core/database.h"
#include "monitor/core/rows.h"
#include "monitor/core/thinner.h"

namespace mpnanny {

struct PositionRow {
  int64_t layer = 0, position = 0;
};
struct AlertUpdate {
  AlertRow row;
};
struct FindingUpdate {
  ShadowFindingRow row;
};
struct NotesRow {
  std::string json;
};
struct PrecisionRow {
  Precision precision = Precision::kFp32;
};
struct ParentRow {
  int64_t first_step = 0;
};
struct LayersRow {
  std::vector<LayerRow> rows;
};
using Row =
    std::variant<StepRow, SampleRow, AlertRow, AlertUpdate, LayersRow, LayerRow, PositionRow,
                 EventRow, NotesRow, PrecisionRow, ParentRow, ShadowStepRow, ShadowFindingRow,
                 FindingUpdate, ShadowProfileRow, RankFigureRow, CollectiveRow>;

class Writer {
 public:
  static constexpr double kFlushSeconds = 0.4;
  static constexpr double kHeartbeatSeconds = 10;  // where there is nothing to write
  static constexpr double kMostFlushSeconds = 5;   // that callers wait for a locked file
  // That the end of a run waits for one: less than a scheduler leaves a process that it ends.
  static constexpr double kMostCloseSeconds = 25;
  // A full queue is about 32 MB, and while it is written another one fills.
  static constexpr size_t kMaxSamples = 65'536;
  static constexpr size_t kMaxOthers = 16'384;
  // So many are written at once: a killed process must find every step in the file or in the ring.
  static constexpr size_t kHurrySteps = kRingSteps / 4;
  static constexpr size_t kHurrySamples = kMaxSamples / 4;

  // Queues; Start() makes it write. Past `max_bytes` of the file old samples are thinned.
  explicit Writer(RunDatabase database, int64_t max_bytes = int64_t{2048} << 20);
  ~Writer();  // abandons what is queued, unless Close() was called
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Starts the thread, once. Unavailable: the system gives no further thread.
  Result<void> Start();

  void Put(Row row);
  void Drop(int64_t samples);  // counts samples that were never put
  // Waits until the run's layers are in the file, all in one transaction; once, before any row that
  // names one. Returns what is added to LayerRow::id there; Unavailable: the writer has failed.
  Result<int64_t> AddLayers(std::vector<LayerRow> layers);
  void FlushSoon();  // at once, without waiting for it
  // Waits until what was put before is in the database, the writer has failed, or another process
  // has held the file for kMostFlushSeconds; true in the first case.
  bool Flush();

  // Writes everything, ends the run, joins the thread. Once. Unavailable: the database lacks
  // something, and the error says how much.
  Result<void> Close(double at, const std::string& end_reason);

  std::string failure() const;  // empty while all is well
  int64_t dropped() const;

 private:
  void Run();
  Result<void> WriteQueued(std::unique_lock<std::mutex>& lock);
  // Makes room for a moment, without the lock.
  Result<void> Thin(std::unique_lock<std::mutex>& lock);
  void ReportDropped(std::deque<Row>& batch);
  // Writes the batch; again and again while another process has the file.
  Result<void> WritePatiently(const std::deque<Row>& batch);
  void Fail(const char* why) noexcept;  // of the thread, which ends
  Result<void> Write(const std::deque<Row>& batch);
  bool GivesUp() const;  // the run has ended, and was waited for long enough
  void CountLost(const Row& row);
  Error Unwritten() const;  // why, and how much

  RunDatabase database_;  // the thread's, until it is joined
  Thinner thinner_;       // the thread's
  mutable std::mutex mutex_;
  std::condition_variable wake_, written_;
  std::deque<Row> queue_;
  size_t queued_samples_ = 0, queued_steps_ = 0;
  int64_t dropped_ = 0, dropped_others_ = 0;  // ever
  int64_t dropped_reported_ = 0;              // of both together
  double dropped_reported_at_ = 0;            // of SteadySeconds()
  uint64_t put_ = 0, done_ = 0;               // rows ever put, rows ever written
  int64_t lost_steps_ = 0, lost_others_ = 0;  // rows that came too late or could not be written
  bool hurry_ = false, stop_ = false;
  double give_up_at_ = 0;                  // of SteadySeconds(), once stop_ is set
  bool locked_ = false;                    // another process has the file at this moment
  bool no_room_ = false;                   // for further samples: the file is past its limit
  double written_at_ = 0, beaten_at_ = 0;  // seconds of a steady clock
  std::string failure_;
  std::thread thread_;
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_WRITER_H_
