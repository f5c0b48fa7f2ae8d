#include "bench/queries_database.h"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/data_files.h"

namespace mpnanny {
std::span<const EmbeddedFile> EmbeddedSchema();
}

namespace mpnanny::bench {
namespace {

// Numbers that look random and are the same everywhere.
class Noise {
 public:
  double Uniform() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<double>(state_ >> 11) * 0x1p-53;
  }

 private:
  uint64_t state_ = 0x9E3779B97F4A7C15;
};

struct Close {
  void operator()(sqlite3* db) const { sqlite3_close(db); }
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

class Writer {
 public:
  explicit Writer(const std::string& path) {
    sqlite3* opened = nullptr;
    failed_ = sqlite3_open(path.c_str(), &opened) != SQLITE_OK;
    db_.reset(opened);
    Execute("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-65536");
    for (const EmbeddedFile& file : EmbeddedSchema()) Execute(std::string(file.text));
    Execute("INSERT INTO meaning VALUES ('tensor_stats.dtype','2','float16')");
  }

  void Execute(const std::string& sql) {
    if (!failed_ && sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
      std::fprintf(stderr, "%s: %s\n", sql.substr(0, 60).c_str(), sqlite3_errmsg(db_.get()));
      failed_ = true;
    }
  }

  // A statement that is run again and again: values are bound in turn, Run() ends the row.
  class Insert {
   public:
    // `columns`: names with commas. A later schema may have more, which stay NULL.
    Insert(Writer& writer, const std::string& table, const std::string& columns) : writer_(writer) {
      std::string sql = "INSERT INTO " + table + " (" + columns + ") VALUES (?";
      for (const char c : columns) sql += c == ',' ? ",?" : "";
      sqlite3_stmt* statement = nullptr;
      writer.failed_ |= sqlite3_prepare_v2(writer.db_.get(), (sql + ")").c_str(), -1, &statement,
                                           nullptr) != SQLITE_OK;
      statement_.reset(statement);
    }
    Insert& operator<<(int64_t value) {
      sqlite3_bind_int64(statement_.get(), ++at_, value);
      return *this;
    }
    Insert& operator<<(double value) {  // NaN becomes NULL
      sqlite3_bind_double(statement_.get(), ++at_, value);
      return *this;
    }
    Insert& operator<<(const std::string& text) {
      sqlite3_bind_text64(statement_.get(), ++at_, text.data(), text.size(), SQLITE_STATIC,
                          SQLITE_UTF8);
      return *this;
    }
    Insert& Blob(const std::string& bytes) {
      sqlite3_bind_blob64(statement_.get(), ++at_, bytes.data(), bytes.size(), SQLITE_STATIC);
      return *this;
    }
    Insert& Null() {
      sqlite3_bind_null(statement_.get(), ++at_);
      return *this;
    }
    void Run() {
      writer_.failed_ |= sqlite3_step(statement_.get()) != SQLITE_DONE;
      sqlite3_reset(statement_.get());
      at_ = 0;
    }

   private:
    Writer& writer_;
    std::unique_ptr<sqlite3_stmt, Close> statement_;
    int at_ = 0;
  };

  bool failed() const { return failed_; }

 private:
  std::unique_ptr<sqlite3, Close> db_;
  bool failed_ = false;
};

// 256 counts as the monitor writes them: a bell about `centre`, `numel` elements.
std::string Exponents(double centre, int64_t numel) {
  std::array<double, 256> weight{};
  double sum = 0;
  for (int i = 1; i < 255; ++i) {
    weight[i] = std::exp(-0.08 * (i - centre) * (i - centre));
    sum += weight[i];
  }
  std::string bytes;
  for (const double w : weight) {
    auto rest = static_cast<uint64_t>(static_cast<double>(numel) * w / sum);
    for (; rest >= 0x80; rest >>= 7) bytes += static_cast<char>(rest | 0x80);
    bytes += static_cast<char>(rest);
  }
  return bytes;
}

struct Layer {
  std::string name, type, source;
  bool gradient = false;
  double level = 0;  // log2 of a usual magnitude
};

// Twenty layers a block: ten modules, whose activations are watched, and their weights, whose
// gradients are.
std::vector<Layer> Layers(int64_t count) {
  constexpr std::array kParts = {"norm1", "attn.q", "attn.k",   "attn.v", "attn.proj",
                                 "norm2", "mlp.up", "mlp.gate", "mlp.wo", "drop"};
  std::vector<Layer> layers;
  Noise noise;
  for (int64_t i = 0; i < count; ++i) {
    Layer layer;
    layer.gradient = i % 20 >= 10;
    layer.name = "blocks." + std::to_string(i / 20) + "." + kParts[i % 10] +
                 (layer.gradient ? ".weight" : "");
    layer.type = layer.gradient ? "parameter" : "Linear";
    layer.source = "model.py:" + std::to_string(20 + 7 * (i % 10));
    layer.level = layer.gradient ? -14 + 6 * noise.Uniform() : 6 * noise.Uniform();
    layers.push_back(layer);
  }
  return layers;
}

// Writes the rows of a run step by step, as a monitor does: pages of all tables lie mixed in the
// file.
class RunWriter {
 public:
  RunWriter(Writer& writer, const RecordingSize& size)
      : size_(size),
        layers_(Layers(size.layers)),
        steps_(size.samples * size.interval),
        bad_step_(steps_ * 97 / 100 / size.interval * size.interval),
        bad_layer_(size.layers * 7 / 10 / 20 * 20 + 4),
        step_(writer, "step",
              "run_id, step, at, duration, loss, lr, loss_scale, grad_norm, peak_memory, flags"),
        stat_(writer, "tensor_stats",
              "run_id, step, layer_id, kind, slot, dtype, numel, nan, posinf, neginf, zeros, min, "
              "max, absmax, absmin, mean, std, rms, l2, below_fp16, subnormal_fp16, above_fp16, "
              "frozen, exponents"),
        alert_(writer, "alert",
               "alert_id, run_id, step, phase, layer_id, kind, type, severity, value, threshold, "
               "producer, repeats, last_step, message") {
    for (int i = 0; i < kTemplates; ++i) exponents_.push_back(Exponents(98 + 0.6 * i, kNumel));
    Writer::Insert layer(writer, "layer", "layer_id, run_id, name, type, position, source, numel");
    for (size_t i = 0; i < layers_.size(); ++i) {
      const auto id = static_cast<int64_t>(i) + 1;
      layer << id << int64_t{1} << layers_[i].name << layers_[i].type << id << layers_[i].source
            << kNumel;
      layer.Run();
    }
  }

  int64_t steps() const { return steps_; }

  void Write(int64_t step) {
    WriteStep(step);
    if (step % size_.interval == 0) WriteSample(step);
    for (; alerts_ < size_.alerts * (step + 1) / steps_; ++alerts_) WriteAlert(step);
  }

 private:
  static constexpr int kTemplates = 64;
  static constexpr int64_t kNumel = 1'048'576;

  bool Bad(int64_t step) const { return step >= bad_step_; }
  double Share(int64_t step) const {
    return static_cast<double>(step) / static_cast<double>(steps_);
  }

  void WriteStep(int64_t step) {
    const bool bad = Bad(step);
    const bool skipped = step % 2'000 == 7;
    const double t = Share(step);
    step_ << int64_t{1} << step << 1.7e9 + 0.5 * static_cast<double>(step)
          << 0.4 + 0.1 * noise_.Uniform()
          << (bad ? NAN : 8 * std::exp(-3 * t) + 0.1 * noise_.Uniform()) << 3e-4 * (1 - t)
          << (skipped ? 131072.0 : 65536.0) << (bad ? NAN : 1 + 0.3 * noise_.Uniform());
    step_.Null() << int64_t{(bad ? 5 : 0) | (skipped ? 28 : 0) |
                            (step % size_.interval == 0 ? 64 : 0)};
    step_.Run();
  }

  void WriteSample(int64_t step) {
    for (int64_t i = 0; i < size_.layers; ++i) {
      const Layer& layer = layers_[static_cast<size_t>(i)];
      // The failure is born in one layer; what comes after it in the forward pass, and all
      // gradients, carry it.
      const bool bad = Bad(step) && (layer.gradient || i >= bad_layer_);
      const double level =
          layer.level + (i == bad_layer_ ? 9 * Share(step) : Share(step)) + 0.5 * noise_.Uniform();
      const double absmax = std::exp2(level);
      const int64_t nan = bad ? (i == bad_layer_ ? kNumel / 64 : kNumel) : 0;
      const bool finite = nan < kNumel;
      const auto figure = [&](double value) { stat_ << (finite ? value : NAN); };
      stat_ << int64_t{1} << step << i + 1 << int64_t{layer.gradient ? 3 : 1} << int64_t{0}
            << int64_t{2} << kNumel << nan << int64_t{0} << int64_t{0} << kNumel / 1000;
      for (const double value : {-absmax, 0.99 * absmax, absmax, absmax * 1e-7, 1e-3 * absmax,
                                 0.2 * absmax, 0.2 * absmax, 205 * absmax}) {
        figure(value);
      }
      stat_ << static_cast<int64_t>(static_cast<double>(kNumel) * std::exp2(-0.8 * (level + 20)))
            << kNumel / 500 << int64_t{0};
      stat_.Null();
      const int bin = static_cast<int>((level + 16) * 2);
      stat_.Blob(exponents_[static_cast<size_t>(std::clamp(bin, 0, kTemplates - 1))]);
      stat_.Run();
    }
  }

  void WriteAlert(int64_t step) {
    static const std::string kTypes[] = {"UNDERFLOW", "SATURATION", "GRAD_VANISH", "STALE_UPDATE"};
    static const std::string kNan = "NAN", kError = "ERROR", kWarning = "WARNING",
                             kForward = "forward", kBackward = "backward",
                             kMessage = "as the monitor words it, with the layer and the figure";
    const bool bad = Bad(step);
    const int64_t layer =
        bad ? bad_layer_ + alerts_ % (size_.layers - bad_layer_) : alerts_ * 37 % size_.layers;
    const bool gradient = layers_[static_cast<size_t>(layer)].gradient;
    alert_.Null() << int64_t{1} << step << (gradient ? kBackward : kForward) << layer + 1
                  << int64_t{gradient ? 3 : 1} << (bad ? kNan : kTypes[alerts_ % 4])
                  << (bad ? kError : kWarning) << 0.02 << 0.01
                  << int64_t{bad && layer == bad_layer_} << int64_t{1} << step << kMessage;
    alert_.Run();
  }

  const RecordingSize size_;
  const std::vector<Layer> layers_;
  const int64_t steps_, bad_step_, bad_layer_;
  Writer::Insert step_, stat_, alert_;
  std::vector<std::string> exponents_;
  Noise noise_;
  int64_t alerts_ = 0;
};

}  // namespace

bool MakeRecording(const std::string& path, const RecordingSize& size) {
  std::error_code ec;
  for (const char* end : {"", "-wal", "-shm", "-journal", "-ring"}) {
    std::filesystem::remove(path + end, ec);
  }
  Writer writer(path);
  writer.Execute(
      "BEGIN; INSERT INTO run VALUES (1,'large',NULL,0,1,1.7e9,1.7e9,1.7e9,'closed','fp16'," +
      std::to_string(size.interval) + ",'{\"torch\":\"2.13.0\"}',NULL)");
  {
    RunWriter run(writer, size);
    for (int64_t step = 0; step < run.steps() && !writer.failed(); ++step) {
      run.Write(step);
      if (step % 10'000 == 9'999) writer.Execute("COMMIT; BEGIN");
    }
  }
  writer.Execute("COMMIT");
  return !writer.failed();
}

}  // namespace mpnanny::bench
