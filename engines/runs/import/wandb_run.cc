// Offline run folders of Weights & Biases: run-<id>.wandb holds protobuf records in LevelDB's log
// framing (blocks of 32 KiB; checksum, length, type, data), files/output.log what the run printed.
#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/flight_ring.h"
#include "base/text.h"
#include "engines/runs/import/byte_source.h"
#include "engines/runs/import/format.h"
#include "engines/runs/import/loose_json.h"
#include "engines/runs/import/series.h"
#include "engines/runs/import/text_log.h"
#include "engines/runs/import/wire.h"
#include "engines/runs/show.h"

namespace mpnanny::imports {
namespace {

constexpr std::string_view kMagic = ":W&B";
constexpr size_t kBlockBytes = 32 * 1024;
constexpr size_t kHeaderBytes = 7;
constexpr size_t kMaxRecordBytes = 8 << 20;
enum Part : uint8_t { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

// Gives whole records out of the blocks; damaged ones are counted and left out.
class RecordReader {
 public:
  explicit RecordReader(ByteSource source) : source_(std::move(source)) {}

  // The next whole record; nullopt at the end. Valid until the next call.
  std::optional<std::string_view> Next() {
    record_.clear();
    bool open = false;
    while (true) {
      if (at_ + kHeaderBytes > block_.size() && !NextBlock()) {
        cut_ = cut_ || open;
        return std::nullopt;
      }
      // The file's own mark has the size of a header.
      if (first_block_ && at_ == 0) {
        at_ = kHeaderBytes;
        continue;
      }
      const auto* header = reinterpret_cast<const uint8_t*>(block_.data()) + at_;
      uint32_t crc = 0;
      std::memcpy(&crc, header, sizeof(crc));
      const size_t size = header[4] | static_cast<size_t>(header[5]) << 8;
      const uint8_t type = header[6];
      if (type == 0 && size == 0) {  // the block's padding
        at_ = block_.size();
        continue;
      }
      const bool inside = at_ + kHeaderBytes + size <= block_.size();
      // The checksum is over type and data, which stand together.
      if (!inside || Crc32(header + 6, size + 1) != crc) {
        if (!inside && block_.size() < kBlockBytes) {
          cut_ = true;  // the last block, still being written or cut
        } else {
          ++damaged_;
        }
        open = false;
        record_.clear();
        at_ = block_.size();
        continue;
      }
      const std::string_view data(block_.data() + at_ + kHeaderBytes, size);
      at_ += kHeaderBytes + size;
      if (type == kFull) return data;
      if (type == kFirst) record_.clear();
      if (type != kFirst && !open) continue;  // its beginning was damaged
      open = true;
      if (record_.size() + size <= kMaxRecordBytes) record_.append(data);
      if (type == kLast) return record_;
    }
  }

  int64_t damaged() const { return damaged_; }
  bool cut() const { return cut_; }

 private:
  bool NextBlock() {
    first_block_ = source_.position() == 0;
    block_.resize(kBlockBytes);
    block_.resize(source_.Read(block_.data(), kBlockBytes));
    at_ = 0;
    if (!block_.empty() && block_.size() < kHeaderBytes) cut_ = true;
    return block_.size() >= kHeaderBytes;
  }

  ByteSource source_;
  std::string block_, record_;
  size_t at_ = 0;
  bool first_block_ = false, cut_ = false;
  int64_t damaged_ = 0;
};

// A number as the library writes it: JSON, where what is not finite is a word in a string.
std::optional<double> NumberOfJson(std::string_view json) {
  if (json.size() >= 2 && json.front() == '"' && json.back() == '"') {
    json = json.substr(1, json.size() - 2);
  }
  return NumberOf(json);
}

// A key and its JSON out of a HistoryItem, a SummaryItem or a ConfigItem.
struct Item {
  std::string key;
  std::string_view json;
};
Item ItemOf(std::string_view message) {
  Item item;
  WireReader fields(message);
  while (fields.Next()) {
    if (fields.number() == 1) item.key = fields.bytes();
    if (fields.number() == 2) {
      item.key += (item.key.empty() ? "" : "/") + std::string(fields.bytes());
    }
    if (fields.number() == 16) item.json = fields.bytes();
  }
  return item;
}

void ReadHistory(std::string_view message, int64_t& last_step, Series& series) {
  std::vector<std::pair<std::string, double>> values;
  std::optional<double> at;
  std::optional<int64_t> step;
  WireReader fields(message);
  while (fields.Next()) {
    if (fields.number() == 1 && fields.is_bytes()) {
      Item item = ItemOf(fields.bytes());
      const auto number = NumberOfJson(item.json);
      if (number && item.key == "_step" && IsCount(number)) {
        step = static_cast<int64_t>(*number);
      } else if (number && item.key == "_timestamp") {
        at = number;
      } else if (number && !item.key.starts_with("_")) {
        values.emplace_back(std::move(item.key), *number);
      } else if (!number && item.json.starts_with("{")) {
        // A nested dict: {"train": {"loss": …}}.
        ReadLooseJson(item.json, {[&](const LooseValue& value) {
                                    if (!value.number) return;
                                    values.emplace_back(item.key + "/" + JoinPath(value.path),
                                                        *value.number);
                                  },
                                  {}});
      }
    } else if (fields.number() == 2 && fields.is_bytes()) {
      WireReader number(fields.bytes());
      while (number.Next()) {
        if (number.number() == 1) step = number.Int();
      }
    }
  }
  last_step = step.value_or(last_step + 1);
  for (const auto& [key, value] : values) series.Add(key, last_step, value, at);
}

// "fp16" or "bf16" if the run's configuration says so.
void ReadConfig(std::string_view message, Import& into) {
  WireReader fields(message);
  while (fields.Next()) {
    if (fields.number() != 1 || !fields.is_bytes()) continue;
    const Item item = ItemOf(fields.bytes());
    const std::string key = LowerCase(item.key), json = LowerCase(item.json);
    if ((key == "fp16" || key == "bf16") && json == "true") into.precision = key;
    if (key != "precision" && key != "mixed_precision" && key != "dtype") continue;
    if (const std::string precision = PrecisionOf("precision " + json); !precision.empty()) {
      into.precision = precision;
    }
  }
}

void ReadRun(std::string_view message, Import& into) {
  WireReader fields(message);
  while (fields.Next()) {
    if (fields.number() == 8 && into.name.empty()) into.name = fields.bytes();
    if (fields.number() == 4 && fields.is_bytes()) ReadConfig(fields.bytes(), into);
    if (fields.number() == 17 && fields.is_bytes()) {
      WireReader time(fields.bytes());
      while (time.Next()) {
        if (time.number() == 1) into.started_at = static_cast<double>(time.Int());
      }
    }
  }
}

bool Fits(const FileHead& head) { return head.bytes.starts_with(kMagic); }

std::vector<std::string> Pick(const Folder& folder) {
  for (const std::string& name : folder.files) {
    if (name.starts_with("run-") && name.ends_with(".wandb")) return {name};
  }
  return {};
}

Result<void> Read(const std::vector<std::string>& files, Import& into) {
  namespace fs = std::filesystem;
  auto source = ByteSource::OfFile(files.front());
  if (!source) return source.error();
  RecordReader records(*std::move(source));
  Series series(into);
  int64_t rows = 0, last_step = -1;
  for (int64_t read = 0; const auto record = records.Next(); ++read) {
    if (read % 256 == 0) {
      MPN_TRY(into.recorder.cancel().Check());
    }
    WireReader fields(*record);
    while (fields.Next()) {
      if (!fields.is_bytes()) continue;
      if (fields.number() == 2) {
        ++rows;
        ReadHistory(fields.bytes(), last_step, series);
      } else if (fields.number() == 5) {
        ReadConfig(fields.bytes(), into);
      } else if (fields.number() == 17) {
        ReadRun(fields.bytes(), into);
      } else if (fields.number() == 18) {
        WireReader exit(fields.bytes());
        while (exit.Next()) {
          if (exit.number() != 1 || exit.Int() == 0) continue;
          into.notes.push_back("The run ended with exit code " + std::to_string(exit.Int()) + ".");
        }
      }
    }
  }
  into.counts = runs::Count(rows, "row of history", "rows of history");
  series.Finish();
  if (records.cut()) {
    into.notes.push_back(
        "The file ends in the middle of a record (still being written, or cut): "
        "what stands before that was read.");
  }
  if (records.damaged() > 0) {
    into.notes.push_back(runs::Count(records.damaged(), "record") +
                         " with a wrong checksum were left out.");
  }
  const fs::path output = fs::path(files.front()).parent_path() / "files" / "output.log";
  std::error_code ec;
  if (!fs::is_regular_file(output, ec) || fs::is_symlink(output, ec)) return {};
  into.texts = {output.generic_string()};
  if (into.recorder.steps() > 0) return {};
  const auto open = [&] { return ByteSource::OfFile(output.generic_string()); };
  if (!open()) return {};
  into.notes.push_back("No loss was logged to it; what the run printed (output.log) was read.");
  return ReadTextLog(open, into);
}

}  // namespace

const Format kWandbRun{"W&B offline run", Fits, Pick, Read};

}  // namespace mpnanny::imports
