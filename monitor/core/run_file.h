// Where a run's rows go: the database with its writer, the flight ring beside it, and the copies
// that are published where the path is on a network file system.
//
// One for each run. Owns the writer, the ring and the publisher. Put() and Event() may be called
// from any thread, everything else by the training process alone, one call at a time. Only Open(),
// AddLayers(), Flush() and Close() wait for a disk. Trouble while it runs is kept in failure().
#ifndef MPNANNY_MONITOR_CORE_RUN_FILE_H_
#define MPNANNY_MONITOR_CORE_RUN_FILE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/os_file_system.h"
#include "base/result.h"
#include "monitor/core/flight_recorder.h"
#include "monitor/core/publisher.h"
#include "monitor/core/recorder_options.h"
#include "monitor/core/writer.h"

namespace mpnanny {

class RunFile {
 public:
  // Opens the database and the ring, brings what a killed run left in the ring into its rows, and
  // starts the run.
  static Result<std::unique_ptr<RunFile>> Open(const RecorderOptions& options);
  RunFile(const RunFile&) = delete;
  RunFile& operator=(const RunFile&) = delete;

  int64_t run_id() const { return run_id_; }
  const std::string& note() const { return note_; }  // what could not be set up; empty mostly
  const std::string& path() const { return path_; }  // of the file that SQLite writes
  // Where copies of it go; empty unless the path that was asked for is on a network file system.
  std::string published() const { return publisher_ ? publisher_->published() : ""; }
  std::string failure() const { return writer_.failure(); }

  // The run's layers, once, before any row that names one, and with them the ring: its samples name
  // rows of the file.
  void AddLayers(std::vector<LayerRow> layers);

  void Put(Row row) { writer_.Put(std::move(row)); }
  void Drop(int64_t samples) { writer_.Drop(samples); }  // counts samples that were never put
  // Now. `detail`: JSON or empty.
  void Event(std::optional<int64_t> step, std::string type, std::string detail);
  // Into the ring alone.
  void PutInRing(const StepRow& row);
  void PutInRing(const SampleRow& row);

  void FlushSoon();  // and publishes; without waiting for it
  void Flush();

  // Ends the run; nothing may be called afterwards. Unavailable: something could not be written,
  // which the error tells, or the file is no longer there.
  Result<void> Close(const std::string& end_reason);

 private:
  RunFile(const RecorderOptions& options, std::string path, RunDatabase database,
          std::optional<FlightRecorder> ring, std::string note);
  void Publish(LivePlace place);

  bool IsGone() const;  // another file, or none, is where ours was

  std::string path_;
  double started_at_ = 0;
  std::optional<FileStamp> stamp_;  // when it was opened
  int64_t run_id_ = 0;
  std::string note_;
  std::optional<FlightRecorder> ring_;
  Writer writer_;
  std::unique_ptr<Publisher> publisher_;  // stops before the writer
};

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_RUN_FILE_H_
