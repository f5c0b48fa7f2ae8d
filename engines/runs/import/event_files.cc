// TensorBoard event files: records of length, checksum, data, checksum; the data is an Event
// message of which only scalars are read.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/text.h"
#include "engines/runs/import/byte_source.h"
#include "engines/runs/import/crc32c.h"
#include "engines/runs/import/format.h"
#include "engines/runs/import/series.h"
#include "engines/runs/import/wire.h"
#include "engines/runs/show.h"

namespace mpnanny::imports {
namespace {

constexpr size_t kHeaderBytes = 12;
constexpr uint64_t kMaxRecordBytes = 8 << 20;  // images and graphs; no scalar is near it

template <typename T>
T Load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));  // both are little end first
  return value;
}

bool HeaderHolds(const char* header) {
  return MaskedCrc32c({header, 8}) == Load<uint32_t>(header + 8);
}

double FromHalf(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const double fraction = static_cast<double>(bits & 1023);
  double value = 0;
  if (exponent == 31) {
    value = fraction != 0 ? std::nan("") : HUGE_VAL;
  } else {
    value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  }
  return bits & 0x8000 ? -value : value;
}

double FromBfloat(uint32_t bits) {
  const uint32_t wide = bits << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return static_cast<double>(value);
}

// The first varint of a field of numbers, packed or not.
int64_t FirstInt(const WireReader& field) {
  if (!field.is_bytes()) return field.Int();
  // A packed field reads like a message's key: number and type are the varint's bits.
  uint64_t value = 0;
  for (size_t i = 0; i < field.bytes().size() && i < 10; ++i) {
    const auto byte = static_cast<uint8_t>(field.bytes()[i]);
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (!(byte & 0x80)) break;
  }
  return static_cast<int64_t>(value);
}

// The number of a tensor of one element; nullopt for any other.
std::optional<double> ScalarOf(std::string_view tensor) {
  WireReader fields(tensor);
  int64_t dtype = 0;
  std::optional<double> value;
  std::string_view content;
  while (fields.Next()) {
    const std::string_view bytes = fields.bytes();
    switch (fields.number()) {
      case 1:
        dtype = fields.Int();
        break;
      case 2: {  // the shape: every dimension must be 1
        WireReader shape(bytes);
        while (shape.Next()) {
          if (shape.number() != 2) continue;
          WireReader dimension(shape.bytes());
          while (dimension.Next()) {
            if (dimension.number() == 1 && dimension.Int() != 1) return std::nullopt;
          }
        }
        break;
      }
      case 4:
        content = bytes;
        break;
      case 5:
        if (bytes.size() == 4) value = static_cast<double>(Load<float>(bytes.data()));
        break;
      case 6:
        if (bytes.size() == 8) value = Load<double>(bytes.data());
        break;
      case 7:
      case 10:
        value = static_cast<double>(FirstInt(fields));
        break;
      case 13: {
        const auto bits = static_cast<uint32_t>(FirstInt(fields));
        value = dtype == 14 ? FromBfloat(bits) : FromHalf(bits);
        break;
      }
      default:
        break;
    }
  }
  if (!content.empty()) {
    const char* data = content.data();
    if (dtype == 1 && content.size() == 4) return static_cast<double>(Load<float>(data));
    if (dtype == 2 && content.size() == 8) return Load<double>(data);
    if (dtype == 3 && content.size() == 4) return static_cast<double>(Load<int32_t>(data));
    if (dtype == 9 && content.size() == 8) return static_cast<double>(Load<int64_t>(data));
    if (dtype == 14 && content.size() == 2) return FromBfloat(Load<uint16_t>(data));
    if (dtype == 19 && content.size() == 2) return FromHalf(Load<uint16_t>(data));
    return std::nullopt;
  }
  return value;
}

void ReadValue(std::string_view message, int64_t step, std::optional<double> at, Series& series) {
  WireReader fields(message);
  std::string_view tag;
  std::optional<double> value;
  while (fields.Next()) {
    if (fields.number() == 1) tag = fields.bytes();
    if (fields.number() == 2 && fields.bytes().size() == 4)
      value = static_cast<double>(fields.Float());
    if (fields.number() == 8) value = ScalarOf(fields.bytes());
  }
  if (value && !tag.empty() && !fields.bad()) series.Add(tag, step, *value, at);
}

void ReadEvent(std::string_view message, Series& series) {
  WireReader fields(message);
  std::optional<double> at;
  int64_t step = 0;
  std::string_view summary;
  while (fields.Next()) {
    if (fields.number() == 1 && fields.bytes().size() == 8) at = fields.Double();
    if (fields.number() == 2) step = fields.Int();
    if (fields.number() == 5) summary = fields.bytes();
  }
  if (at && !(*at > 0 && *at < 1e11)) at.reset();
  WireReader values(summary);
  while (values.Next()) {
    if (values.number() == 1 && values.is_bytes()) ReadValue(values.bytes(), step, at, series);
  }
}

struct Damage {
  int64_t cut = 0, broken_files = 0, bad_records = 0, large = 0;
};

Result<void> ReadEventFile(const std::string& path, const CancelToken& cancel, Series& series,
                           Damage& damage) {
  MPN_TRY_ASSIGN(auto source, ByteSource::OfFile(path));
  std::string data;
  for (int64_t record = 0;; ++record) {
    if (record % 256 == 0) {
      MPN_TRY(cancel.Check());
    }
    char header[kHeaderBytes];
    const size_t got = source.Read(header, kHeaderBytes);
    if (got == 0) return {};
    if (got < kHeaderBytes) {
      ++damage.cut;
      return {};
    }
    if (!HeaderHolds(header)) {
      ++damage.broken_files;  // where the next record begins is not known
      return {};
    }
    const auto size = Load<uint64_t>(header);
    if (size > kMaxRecordBytes) {
      ++damage.large;
      if (size > UINT64_MAX - 4 || !source.Skip(size + 4)) {
        ++damage.cut;
        return {};
      }
      continue;
    }
    data.resize(static_cast<size_t>(size) + 4);
    if (source.Read(data.data(), data.size()) < data.size()) {
      ++damage.cut;
      return {};
    }
    const std::string_view event(data.data(), static_cast<size_t>(size));
    if (MaskedCrc32c(event) != Load<uint32_t>(data.data() + size)) {
      ++damage.bad_records;
      continue;
    }
    ReadEvent(event, series);
  }
}

bool Fits(const FileHead& head) {
  return head.bytes.size() >= kHeaderBytes && HeaderHolds(head.bytes.data());
}

std::vector<std::string> Pick(const Folder& folder) {
  std::vector<std::string> picked;
  for (const std::string& name : folder.files) {
    if (name.find("tfevents") != std::string::npos && !name.ends_with(".profile-empty")) {
      picked.push_back(name);
    }
  }
  return picked;
}

Result<void> Read(const std::vector<std::string>& files, Import& into) {
  Series series(into);
  Damage damage;
  std::vector<std::string> sorted = files;  // their names hold the time at which each began
  std::sort(sorted.begin(), sorted.end());
  for (const std::string& path : sorted) {
    auto read = ReadEventFile(path, into.recorder.cancel(), series, damage);
    if (read) continue;
    const ErrorKind kind = read.error().kind;
    if (kind == ErrorKind::kCancelled || kind == ErrorKind::kDeadlineExceeded) return read;
    into.notes.push_back(read.error().message);
  }
  into.counts = runs::Count(series.values(), "value") + " in " +
                runs::Count(static_cast<int64_t>(files.size()), "file");
  series.Finish();
  if (damage.cut > 0) {
    into.notes.push_back(runs::Count(damage.cut, "file") +
                         " ended in the middle of a record (still being written, or cut): what "
                         "stands before that was read.");
  }
  if (damage.broken_files > 0) {
    into.notes.push_back(runs::Count(damage.broken_files, "file") +
                         " could be read only up to a record whose length has a wrong checksum.");
  }
  if (damage.bad_records > 0) {
    into.notes.push_back(runs::Count(damage.bad_records, "record") +
                         " with a wrong checksum were left out.");
  }
  if (damage.large > 0) {
    into.notes.push_back(runs::Count(damage.large, "very large record") + " were not looked at.");
  }
  return {};
}

}  // namespace

const Format kEventFiles{"TensorBoard event files", Fits, Pick, Read};

}  // namespace mpnanny::imports
