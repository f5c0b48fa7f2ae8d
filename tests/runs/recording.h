// Real databases and flight recorders for the tests of the tools over runs, written as the monitor
// writes them.
#ifndef MPNANNY_TESTS_RUNS_RECORDING_H_
#define MPNANNY_TESTS_RUNS_RECORDING_H_

#include <sqlite3.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/flight_ring.h"
#include "base/json.h"
#include "base/result.h"
#include "tools/tool.h"

namespace mpnanny::test {

// A folder of its own that goes away with the object.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  void Write(const std::string& name, std::string_view bytes) const;

 private:
  std::string path_;
};

using Real = std::optional<double>;

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

struct StepSpec {
  Real loss = {}, lr = 1e-3, scale = {}, grad_norm = 1.0;
  uint32_t flags = 0;
};

struct StatSpec {
  int64_t kind = 1, slot = 0, dtype = 2, numel = 1024;
  int64_t nan = 0, posinf = 0, neginf = 0, zeros = 0;
  Real absmax = 1.0, absmin = 1e-3, mean = 0.0, std = 0.5, rms = 0.5;
  int64_t below_fp16 = 0, subnormal_fp16 = 0, above_fp16 = 0;
  std::optional<int64_t> frozen = {};
};

struct AlertSpec {
  std::string type, severity = "ERROR", phase = "forward";
  std::optional<int64_t> layer = {}, kind = {}, producer = {};
  Real value = {}, threshold = {};
  int64_t repeats = 1;
  std::string message = "as measured";
  std::string detail = {};  // JSON; of version 2
};

// One open database of the monitor's schema. Non-finite numbers become NULL, as SQLite does it.
class Recording {
 public:
  // `version`: of the schema that a new file gets; version 1 has no shadow steps.
  explicit Recording(const std::string& path, bool wal = false, int version = 2);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  void Execute(const std::string& sql);
  // Returns the run's id. `ended`: end_reason, "" for none.
  int64_t Run(const std::string& name, const std::string& ended = "closed",
              const std::string& precision = "fp16", double started_at = 1.7e9);
  int64_t Layer(const std::string& name, const std::string& source = "model.py:10",
                const std::string& type = "Linear");
  void Step(int64_t step, const StepSpec& spec);
  void Stat(int64_t step, int64_t layer, const StatSpec& spec);
  void Alert(int64_t step, const AlertSpec& spec);
  sqlite3* handle() { return db_; }
  int64_t run() const { return run_; }

 private:
  sqlite3* db_ = nullptr;
  int64_t run_ = 0, layers_ = 0;
};

// Writes a ring file beside `database`.
class RingFile {
 public:
  RingFile(const std::string& database, int64_t run_id, double started_at, int64_t pid = 0);
  void Step(int64_t step, double loss, uint32_t flags = 0, int32_t first_layer = -1);
  void Sample(int64_t step, int64_t layer, int32_t kind, double absmax, int64_t nan = 0);
  void Write(size_t bytes = kRingBytes);  // `bytes`: cut there
  std::string& bytes() { return bytes_; }

 private:
  RingHeader& header() { return *reinterpret_cast<RingHeader*>(bytes_.data()); }
  std::string path_, bytes_;
  uint64_t steps_ = 0, samples_ = 0;
};

const Tool& FindTool(const std::string& name);

// Calls the tool as a client would; checks on every path that a result fits the output schema and
// keeps to the size of an answer (the `answer_bytes` given).
Result<ToolOutput> Call(const std::string& tool, const Json& arguments, const std::string& root,
                        const DataFiles& data, size_t answer_bytes = kAnswerBytes);
// With the built-in data.
Result<ToolOutput> Call(const std::string& tool, const Json& arguments, const std::string& root,
                        size_t answer_bytes = kAnswerBytes);

}  // namespace mpnanny::test

#endif  // MPNANNY_TESTS_RUNS_RECORDING_H_
