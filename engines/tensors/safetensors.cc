#include "engines/tensors/safetensors.h"

#include <algorithm>
#include <numeric>

#include "base/json.h"
#include "base/text.h"
#include "engines/tensors/extent.h"

namespace mpnanny::tensor_files {
namespace {

constexpr uint64_t kMostHeaderBytes = 100'000'000;  // the reference reader's
// A parsed header takes some twenty times its bytes of memory. 32 MB describe 300,000 tensors.
constexpr uint64_t kMostParsedBytes = uint64_t{32} << 20;
constexpr size_t kHeaderDepth = 4;

uint64_t HeaderBytes(std::span<const uint8_t> bytes) {
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | bytes[static_cast<size_t>(i)];
  return length;
}

Error Damaged(const std::string& key, const std::string& what) {
  return DataCorrupt("safetensors: tensor '" + EscapeControl(key, 200) + "': " + what + ".",
                     "The file is damaged or was not written whole: get it again.");
}

// Whole numbers from 0 to 2^63 - 1 only.
bool TakeOffset(const Json& json, int64_t& value) {
  if (!json.is_number_unsigned() && !(json.is_number_integer() && json.get<int64_t>() >= 0))
    return false;
  if (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX) return false;
  value = json.get<int64_t>();
  return true;
}

struct Range {
  int64_t begin = 0, end = 0;
};

Result<Range> ReadEntry(const std::string& key, const Json& json, std::span<const uint8_t> data,
                        Entry& entry) {
  if (!json.is_object()) return Damaged(key, "no description");
  const Json& dtype = ValueAt(json, {"dtype"});
  const Json& shape = ValueAt(json, {"shape"});
  const Json& offsets = ValueAt(json, {"data_offsets"});
  if (!dtype.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2)
    return Damaged(key, "dtype, shape or data_offsets is missing");
  Range range;
  if (!TakeOffset(offsets[0], range.begin) || !TakeOffset(offsets[1], range.end) ||
      range.begin > range.end || range.end > static_cast<int64_t>(data.size())) {
    return Damaged(key, "data_offsets lie outside the file");
  }
  entry.key = key;
  for (const Json& size : shape) {
    if (!TakeOffset(size, entry.shape.emplace_back(0)))
      return Damaged(key, "a size is no whole number");
  }
  const auto count = ElementCount(entry.shape);
  if (!count) return Damaged(key, "the shape is too large");
  entry.storage =
      data.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.end - range.begin));
  entry.storage_bytes = entry.storage.size();
  const std::string name = dtype.get<std::string>();
  entry.type = TypeBySafetensors(name);
  if (entry.type == nullptr) {
    entry.problem = "dtype " + EscapeControl(name, 40) + " is not known";
    return range;
  }
  const auto bytes = ByteCount(*count, entry.type->bits);
  if (!bytes || *bytes != range.end - range.begin) {
    return Damaged(key, "shape and dtype need another number of bytes than the " +
                            std::to_string(range.end - range.begin) + " of data_offsets");
  }
  return range;
}

}  // namespace

bool LooksLikeSafetensors(std::span<const uint8_t> bytes) {
  if (bytes.size() < 9) return false;
  const uint64_t length = HeaderBytes(bytes);
  return length >= 2 && length <= kMostHeaderBytes && bytes[8] == '{';
}

Result<Contents> ReadSafetensors(std::span<const uint8_t> bytes) {
  if (!LooksLikeSafetensors(bytes)) return InvalidInput("Not a safetensors file.");
  const uint64_t length = HeaderBytes(bytes);
  if (length > bytes.size() - 8) {
    return DataCorrupt("safetensors: the header is " + std::to_string(length) +
                           " bytes long, and the file ends before it does.",
                       "The file was not written whole: get it again.");
  }
  if (length > kMostParsedBytes) {
    return InvalidInput("safetensors: a header of " + std::to_string(length) +
                            " bytes; the limit is " + std::to_string(kMostParsedBytes) + ".",
                        "Save the tensors in several files.");
  }
  auto header = ParseJson(AsText(bytes.subspan(8, static_cast<size_t>(length))), kHeaderDepth,
                          DuplicateKeys::kRefuse);
  if (!header) return DataCorrupt("safetensors: the header is " + header.error().message);
  if (!header->is_object()) return DataCorrupt("safetensors: the header is no JSON object.");
  const auto data = bytes.subspan(8 + static_cast<size_t>(length));
  Contents contents;
  contents.format = "safetensors";
  std::vector<Range> ranges;
  for (const auto& [key, json] : header->items()) {
    if (key == "__metadata__") continue;
    if (contents.entries.size() == kMostEntries)
      return DataCorrupt("safetensors: more than a million tensors.");
    MPN_TRY_ASSIGN(auto range, ReadEntry(key, json, data, contents.entries.emplace_back()));
    ranges.push_back(range);
  }
  std::vector<size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(ranges[a].begin, ranges[a].end) < std::pair(ranges[b].begin, ranges[b].end);
  });
  int64_t end = 0;
  for (const size_t i : order) {
    if (ranges[i].begin != end)
      return Damaged(contents.entries[i].key, "its bytes leave a hole or overlap another tensor's");
    end = ranges[i].end;
  }
  if (end != static_cast<int64_t>(data.size())) {
    return DataCorrupt("safetensors: the tensors end at byte " + std::to_string(end) +
                           " of the data, the file at " + std::to_string(data.size()) + ".",
                       "The file is damaged or was not written whole: get it again.");
  }
  return contents;
}

}  // namespace mpnanny::tensor_files
