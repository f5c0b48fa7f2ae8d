#include "tests/runs/recording.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/data_files.h"
#include "engines/json_schema.h"
#include "tests/runs/same_figures.h"
#include "tools/call.h"

namespace mpnanny {
std::span<const EmbeddedFile> EmbeddedSchema();
}

namespace mpnanny::test {
namespace fs = std::filesystem;

TempFolder::TempFolder() {
  std::string pattern = (fs::temp_directory_path() / "mpnanny-runs-XXXXXX").string();
  if (!mkdtemp(pattern.data())) abort();
  path_ = fs::canonical(pattern).string();
}

TempFolder::~TempFolder() {
  std::error_code ec;
  fs::remove_all(path_, ec);
}

void TempFolder::Write(const std::string& name, std::string_view bytes) const {
  fs::create_directories(fs::path(File(name)).parent_path());
  std::ofstream(File(name), std::ios::binary) << bytes;
}

Recording::Recording(const std::string& path, bool wal, int version) {
  fs::create_directories(fs::path(path).parent_path());
  const bool fresh = !fs::exists(path);
  EXPECT_EQ(sqlite3_open(path.c_str(), &db_), SQLITE_OK);
  Execute("PRAGMA synchronous=OFF");
  if (wal) Execute("PRAGMA journal_mode=WAL");
  if (fresh) {
    int number = 0;
    for (const EmbeddedFile& file : EmbeddedSchema()) {
      if (++number <= version) Execute(std::string(file.text));
    }
    Execute(
        "INSERT INTO meaning VALUES ('tensor_stats.dtype','1','float32'),"
        "('tensor_stats.dtype','2','float16'),('tensor_stats.dtype','3','bfloat16')");
  }
  sqlite3_stmt* ids = nullptr;
  sqlite3_prepare_v2(db_, "SELECT coalesce(max(layer_id),0) FROM layer", -1, &ids, nullptr);
  if (sqlite3_step(ids) == SQLITE_ROW) layers_ = sqlite3_column_int64(ids, 0);
  sqlite3_finalize(ids);
}

Recording::~Recording() { sqlite3_close(db_); }

void Recording::Execute(const std::string& sql) {
  char* error = nullptr;
  EXPECT_EQ(sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK)
      << (error ? error : "") << "\n"
      << sql;
  sqlite3_free(error);
}

namespace {

// Inserts one row; each value is bound by its type.
class InsertedRow {
 public:
  InsertedRow(sqlite3* db, const std::string& table, int columns) {
    std::string sql = "INSERT INTO " + table + " VALUES (";
    for (int i = 0; i < columns; ++i) sql += i == 0 ? "?" : ",?";
    EXPECT_EQ(sqlite3_prepare_v2(db, (sql + ")").c_str(), -1, &statement_, nullptr), SQLITE_OK)
        << sqlite3_errmsg(db);
  }
  ~InsertedRow() {
    EXPECT_EQ(sqlite3_step(statement_), SQLITE_DONE)
        << sqlite3_errmsg(sqlite3_db_handle(statement_));
    sqlite3_finalize(statement_);
  }
  InsertedRow& operator<<(int64_t value) {
    sqlite3_bind_int64(statement_, ++at_, value);
    return *this;
  }
  InsertedRow& operator<<(Real value) {
    ++at_;
    if (value && !std::isnan(*value) && !std::isinf(*value)) {
      sqlite3_bind_double(statement_, at_, *value);
    }
    return *this;
  }
  InsertedRow& operator<<(std::optional<int64_t> value) {
    ++at_;
    if (value) sqlite3_bind_int64(statement_, at_, *value);
    return *this;
  }
  InsertedRow& operator<<(const std::string& value) {
    sqlite3_bind_text64(statement_, ++at_, value.data(), value.size(), SQLITE_TRANSIENT,
                        SQLITE_UTF8);
    return *this;
  }
  InsertedRow& operator<<(std::nullptr_t) {
    ++at_;
    return *this;
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int at_ = 0;
};

}  // namespace

int64_t Recording::Run(const std::string& name, const std::string& ended,
                       const std::string& precision, double started_at) {
  {
    InsertedRow row(db_, "run", 13);
    row << nullptr << name << nullptr << int64_t{0} << int64_t{1} << Real(started_at)
        << Real(started_at + 60);
    if (ended.empty()) {
      row << nullptr << nullptr;
    } else {
      row << Real(started_at + 60) << ended;
    }
    row << precision << int64_t{10} << std::string(R"({"torch":"2.13.0","script":"train.py"})")
        << nullptr;
  }
  run_ = 0;
  sqlite3_stmt* next = nullptr;
  sqlite3_prepare_v2(db_, "SELECT max(run_id) FROM run", -1, &next, nullptr);
  if (sqlite3_step(next) == SQLITE_ROW) run_ = sqlite3_column_int64(next, 0);
  sqlite3_finalize(next);
  return run_;
}

int64_t Recording::Layer(const std::string& name, const std::string& source,
                         const std::string& type) {
  const int64_t id = ++layers_;
  InsertedRow(db_, "layer", 7) << id << run_ << name << type << id << source << int64_t{1000};
  return id;
}

void Recording::Step(int64_t step, const StepSpec& spec) {
  uint32_t flags = spec.flags;
  if (spec.loss && std::isnan(*spec.loss)) flags |= 1;
  if (spec.loss && std::isinf(*spec.loss)) flags |= 2;
  InsertedRow(db_, "step", 10) << run_ << step << Real(1.7e9 + static_cast<double>(step))
                               << Real(0.01) << spec.loss << spec.lr << spec.scale << spec.grad_norm
                               << nullptr << static_cast<int64_t>(flags);
}

void Recording::Stat(int64_t step, int64_t layer, const StatSpec& s) {
  InsertedRow(db_, "tensor_stats", 24)
      << run_ << step << layer << s.kind << s.slot << s.dtype << s.numel << s.nan << s.posinf
      << s.neginf << s.zeros << Real(s.absmax) << Real(s.absmax) << s.absmax << s.absmin << s.mean
      << s.std << s.rms << s.rms << s.below_fp16 << s.subnormal_fp16 << s.above_fp16 << s.frozen
      << nullptr;
}

void Recording::Alert(int64_t step, const AlertSpec& a) {
  constexpr char kColumns[] =
      "alert (alert_id, run_id, step, phase, layer_id, kind, type, severity, value, threshold, "
      "producer, repeats, last_step, message)";
  InsertedRow(db_, kColumns, 14) << nullptr << run_ << step << a.phase << a.layer << a.kind
                                 << a.type << a.severity << a.value << a.threshold << a.producer
                                 << a.repeats << step << a.message;
  if (a.detail.empty()) return;
  std::string quoted;
  for (const char c : a.detail) quoted += c == '\'' ? "''" : std::string(1, c);
  Execute("UPDATE alert SET detail='" + quoted + "' WHERE alert_id=last_insert_rowid()");
}

RingFile::RingFile(const std::string& database, int64_t run_id, double started_at, int64_t pid)
    : path_(RingPath(database)), bytes_(kRingBytes, '\0') {
  RingHeader& h = header();
  std::memcpy(h.magic, kRingMagic, sizeof(kRingMagic));
  h.version = kRingVersion;
  h.header_bytes = sizeof(RingHeader);
  h.step_slots = kRingSteps;
  h.step_bytes = sizeof(RingStep);
  h.sample_slots = kRingSamples;
  h.sample_bytes = sizeof(RingSample);
  h.run_id = run_id;
  h.run_started_at = started_at;
  h.pid = pid;
}

void RingFile::Step(int64_t step, double loss, uint32_t flags, int32_t first_layer) {
  RingStep slot{};
  slot.sequence = ++steps_;
  slot.step = step;
  slot.loss = loss;
  slot.loss_scale = 1024;
  slot.flags = flags;
  slot.known = kKnownLoss | kKnownLossScale;
  slot.first_nonfinite_layer = first_layer;
  slot.nonfinite_layers = first_layer < 0 ? 0 : 1;
  slot.crc = Crc32(reinterpret_cast<const char*>(&slot) + offsetof(RingStep, step),
                   offsetof(RingStep, crc) - offsetof(RingStep, step));
  std::memcpy(bytes_.data() + sizeof(RingHeader) + ((steps_ - 1) % kRingSteps) * sizeof(slot),
              &slot, sizeof(slot));
}

void RingFile::Sample(int64_t step, int64_t layer, int32_t kind, double absmax, int64_t nan) {
  RingSample slot{};
  slot.sequence = ++samples_;
  slot.step = step;
  slot.layer_id = layer;
  slot.kind = kind;
  slot.dtype = 2;
  slot.has_finite = 1;
  slot.numel = 64;
  slot.nan = nan;
  slot.absmax = absmax;
  slot.crc = Crc32(reinterpret_cast<const char*>(&slot) + offsetof(RingSample, step),
                   offsetof(RingSample, crc) - offsetof(RingSample, step));
  std::memcpy(bytes_.data() + sizeof(RingHeader) + kRingSteps * sizeof(RingStep) +
                  ((samples_ - 1) % kRingSamples) * sizeof(slot),
              &slot, sizeof(slot));
}

void RingFile::Write(size_t bytes) {
  std::ofstream(path_, std::ios::binary) << bytes_.substr(0, bytes);
}

const Tool& FindTool(const std::string& name) {
  static const std::vector<Tool> tools = AllTools();
  for (const Tool& tool : tools) {
    if (tool.definition.name == name) return tool;
  }
  ADD_FAILURE() << "no tool " << name;
  abort();
}

Result<ToolOutput> Call(const std::string& tool, const Json& arguments, const std::string& root,
                        const DataFiles& data, size_t answer_bytes) {
  auto roots = AllowedRoots::Create({root});
  if (!roots) return roots.error();
  const ToolContext context{.roots = *roots,
                            .data = data,
                            .cancel = {},
                            .answer_bytes = answer_bytes,
                            .progress = nullptr};
  const Tool& found = FindTool(tool);
  auto output = CallTool(found, arguments, context);
  if (output) {
    auto valid = ValidateAgainstSchema(found.definition.output_schema, output->structured, tool);
    EXPECT_TRUE(valid) << (valid ? "" : valid.error().Text()) << "\n"
                       << DumpJsonPretty(output->structured);
    EXPECT_LE(output->text.size(), answer_bytes) << output->text;
    EXPECT_LE(DumpJson(output->structured).size(), answer_bytes) << DumpJson(output->structured);
    for (const char c : output->text) {
      EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20)
          << "control character in text";
    }
    if (tool == "diagnose_run") {
      // The page's readers choose their language.
      constexpr size_t kPageBytes = 200'000;
      ToolContext page = context;
      page.answer_bytes = kPageBytes;
      page.chinese_too = true;
      const auto both = CallTool(found, arguments, page);
      // (In some tests the run changes while it is read.)
      if (both) ExpectChineseDiagnosis(both->structured);
    }
  } else {
    EXPECT_FALSE(output.error().message.empty());
    EXPECT_NE(output.error().kind, ErrorKind::kInternal) << output.error().Text();
  }
  return output;
}

Result<ToolOutput> Call(const std::string& tool, const Json& arguments, const std::string& root,
                        size_t answer_bytes) {
  static const DataFiles data = *DataFiles::Create();
  return Call(tool, arguments, root, data, answer_bytes);
}

}  // namespace mpnanny::test
