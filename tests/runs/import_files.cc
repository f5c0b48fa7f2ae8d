#include "tests/runs/import_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "engines/runs/import/crc32c.h"

namespace mpnanny::test {
namespace {

template <typename T>
std::string Bytes(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

}  // namespace

std::string Varint(uint64_t value) {
  std::string bytes;
  do {
    bytes += static_cast<char>((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
    value >>= 7;
  } while (value > 0);
  return bytes;
}
std::string WireInt(uint64_t number, uint64_t value) { return Varint(number << 3) + Varint(value); }
std::string WireBytes(uint64_t number, std::string_view bytes) {
  return Varint(number << 3 | 2) + Varint(bytes.size()) + std::string(bytes);
}
std::string WireFloat(uint64_t number, float value) {
  return Varint(number << 3 | 5) + Bytes(value);
}
std::string WireDouble(uint64_t number, double value) {
  return Varint(number << 3 | 1) + Bytes(value);
}

std::string EventRecord(std::string_view event) {
  const std::string size = Bytes(static_cast<uint64_t>(event.size()));
  return size + Bytes(imports::MaskedCrc32c(size)) + std::string(event) +
         Bytes(imports::MaskedCrc32c(event));
}

std::string Scalar(const std::string& tag, int64_t step, float value, double at) {
  const std::string one = WireBytes(1, WireBytes(1, tag) + WireFloat(2, value));
  return EventRecord(WireDouble(1, at) + WireInt(2, static_cast<uint64_t>(step)) +
                     WireBytes(5, one));
}

std::string TensorScalar(const std::string& tag, int64_t step, std::string_view tensor) {
  const std::string one = WireBytes(1, WireBytes(1, tag) + WireBytes(8, tensor));
  return EventRecord(WireDouble(1, 1.7e9) + WireInt(2, static_cast<uint64_t>(step)) +
                     WireBytes(5, one));
}

std::string WandbFile(const std::vector<std::string>& records) {
  constexpr size_t kBlock = 32768, kHeader = 7;
  std::string file = std::string(":W&B") + '\xe1' + '\xbe' + '\0';
  for (const std::string& record : records) {
    size_t at = 0;
    bool first = true;
    do {
      const size_t left = kBlock - file.size() % kBlock;
      if (left < kHeader) {
        file.append(left, '\0');
        continue;
      }
      const size_t size = std::min(record.size() - at, left - kHeader);
      const bool last = at + size == record.size();
      const char type = first && last ? 1 : first ? 2 : last ? 4 : 3;
      const std::string part = std::string(1, type) + record.substr(at, size);
      file += Bytes(Crc32(part.data(), part.size())) + Bytes(static_cast<uint16_t>(size)) + part;
      at += size;
      first = false;
    } while (at < record.size() || first);
  }
  return file;
}

std::string History(int64_t step, const std::vector<std::pair<std::string, std::string>>& items) {
  std::string history;
  for (const auto& [key, json] : items) {
    history += WireBytes(1, WireBytes(2, key) + WireBytes(16, json));
  }
  history += WireBytes(2, WireInt(1, static_cast<uint64_t>(step)));
  return WireBytes(2, history);
}

const runs::StepRow* ReadLog::Find(int64_t step) const {
  for (const runs::StepRow& row : steps) {
    if (row.step == step) return &row;
  }
  return nullptr;
}

ReadLog ReadAsRun(const TempFolder& folder, const std::string& handle) {
  ReadLog read;
  const auto roots = AllowedRoots::Create({folder.path()});
  auto source = runs::OpenRun(handle, *roots, {});
  if (!source) {
    EXPECT_NE(source.error().kind, ErrorKind::kInternal) << source.error().Text();
    read.error = source.error().Text();
    return read;
  }
  auto done = runs::ForEachStep(*source, {}, [&](const runs::StepRow& row) {
    read.steps.push_back(row);
    return true;
  });
  EXPECT_TRUE(done) << (done ? "" : done.error().Text());
  for (const std::string& note : source->notes) read.notes += note + "\n";
  read.format = source->format;
  read.name = source->run.name;
  read.precision = source->run.precision;
  if (auto runs = runs::ReadRuns(*source->database, {})) {
    read.runs = static_cast<int64_t>(runs->size());
  }
  return read;
}

}  // namespace mpnanny::test
