#include "engines/tensors/zip.h"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/text.h"
#include "engines/tensors/tensor_file.h"

namespace mpnanny::tensor_files {
namespace {

constexpr size_t kEndBytes = 22;
constexpr size_t kMostComment = 65'535;
constexpr size_t kDirectoryBytes = 46;
constexpr size_t kLocalBytes = 30;
// Deflate's best is 1032:1; a member that claims more is a bomb or damaged.
constexpr uint64_t kMostRatio = 1032;

Error DamagedArchive(const std::string& what) {
  return DataCorrupt("zip: " + what + ".", "The file is damaged or was not written whole.");
}

// Little-endian numbers at an offset that the caller has checked.
uint64_t Number(std::span<const uint8_t> bytes, size_t at, int size) {
  uint64_t value = 0;
  for (int i = size - 1; i >= 0; --i) value = value << 8 | bytes[at + static_cast<size_t>(i)];
  return value;
}

struct Directory {
  uint64_t entries = 0, bytes = 0, offset = 0;
};

Result<Directory> FindDirectory(std::span<const uint8_t> bytes) {
  if (bytes.size() < kEndBytes) return DamagedArchive("the file is too short");
  const size_t last = bytes.size() - kEndBytes;
  const size_t first = last > kMostComment ? last - kMostComment : 0;
  std::optional<size_t> end;
  for (size_t at = last + 1; at-- > first;) {
    if (Number(bytes, at, 4) == 0x06054b50 &&
        at + kEndBytes + Number(bytes, at + 20, 2) == bytes.size()) {
      end = at;
      break;
    }
  }
  if (!end) return DamagedArchive("there is no end of a central directory: the file is not whole");
  if (Number(bytes, *end + 4, 2) != 0 || Number(bytes, *end + 6, 2) != 0)
    return DamagedArchive("it is one part of several");
  Directory found{Number(bytes, *end + 10, 2), Number(bytes, *end + 12, 4),
                  Number(bytes, *end + 16, 4)};
  constexpr size_t kLocator = 20;
  if (*end >= kLocator && Number(bytes, *end - kLocator, 4) == 0x07064b50) {
    const uint64_t at = Number(bytes, *end - kLocator + 8, 8);
    if (at > *end || *end - at < 56 || Number(bytes, at, 4) != 0x06064b50)
      return DamagedArchive("the end of the 64-bit directory is not where it should be");
    found = {Number(bytes, at + 32, 8), Number(bytes, at + 40, 8), Number(bytes, at + 48, 8)};
  }
  if (found.offset > *end || found.bytes > *end - found.offset)
    return DamagedArchive("the central directory lies outside the file");
  if (found.entries > kMostEntries || found.entries > found.bytes / kDirectoryBytes)
    return DamagedArchive("more members than the directory has room for");
  return found;
}

struct Place {
  uint64_t bytes, stored, offset;
};

// Sizes that do not fit 32 bits stand in the extra field, in this order.
bool TakeWide(std::span<const uint8_t> extra, Place& place) {
  const bool needed =
      place.bytes == 0xffffffff || place.stored == 0xffffffff || place.offset == 0xffffffff;
  if (!needed) return true;
  for (size_t at = 0; at + 4 <= extra.size();) {
    const uint64_t id = Number(extra, at, 2);
    const uint64_t size = Number(extra, at + 2, 2);
    at += 4;
    if (size > extra.size() - at) return false;
    if (id == 1) {
      auto field = extra.subspan(at, size);
      for (uint64_t* value : {&place.bytes, &place.stored, &place.offset}) {
        if (*value != 0xffffffff) continue;
        if (field.size() < 8) return false;
        *value = Number(field, 0, 8);
        field = field.subspan(8);
      }
      return true;
    }
    at += size;
  }
  return false;
}

std::string FaultOfName(const std::string& name) {
  if (name.empty() || name.find('\0') != std::string::npos) return "has no proper name";
  if (name[0] == '/' || name.find('\\') != std::string::npos) return "has a path for a name";
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    if (name.substr(at, end - at) == "..") return "leads out of the archive";
    at = end + 1;
  }
  return "";
}

// Where the member's bytes begin; its local header must be there and have the same name.
std::optional<uint64_t> DataBegin(std::span<const uint8_t> bytes, uint64_t offset,
                                  const std::string& name) {
  if (offset > bytes.size() || bytes.size() - offset < kLocalBytes) return std::nullopt;
  if (Number(bytes, offset, 4) != 0x04034b50) return std::nullopt;
  const uint64_t name_bytes = Number(bytes, offset + 26, 2);
  const uint64_t begin = offset + kLocalBytes + name_bytes + Number(bytes, offset + 28, 2);
  if (begin > bytes.size() || name_bytes != name.size()) return std::nullopt;
  if (AsText(bytes.subspan(offset + kLocalBytes, name_bytes)) != name) return std::nullopt;
  return begin;
}

}  // namespace

bool LooksLikeZip(std::span<const uint8_t> bytes) {
  return bytes.size() >= 4 && Number(bytes, 0, 4) == 0x04034b50;
}

Result<ZipFile> ZipFile::Read(std::span<const uint8_t> bytes) {
  MPN_TRY_ASSIGN(const auto directory, FindDirectory(bytes));
  ZipFile zip;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // of each member, header included
  auto rest = bytes.subspan(directory.offset, directory.bytes);
  for (uint64_t i = 0; i < directory.entries; ++i) {
    if (rest.size() < kDirectoryBytes || Number(rest, 0, 4) != 0x02014b50)
      return DamagedArchive("the central directory breaks off at member " + std::to_string(i + 1));
    const uint64_t name_bytes = Number(rest, 28, 2);
    const uint64_t extra_bytes = Number(rest, 30, 2);
    const uint64_t whole = kDirectoryBytes + name_bytes + extra_bytes + Number(rest, 32, 2);
    if (whole > rest.size())
      return DamagedArchive("the central directory breaks off at member " + std::to_string(i + 1));
    const std::string name(AsText(rest.subspan(kDirectoryBytes, name_bytes)));
    const std::string shown = "member '" + EscapeControl(name, 200) + "' ";
    Place place{Number(rest, 24, 4), Number(rest, 20, 4), Number(rest, 42, 4)};
    if (!TakeWide(rest.subspan(kDirectoryBytes + name_bytes, extra_bytes), place))
      return DamagedArchive(shown + "has no 64-bit size");
    const uint64_t flags = Number(rest, 8, 2);
    const uint64_t method = Number(rest, 10, 2);
    rest = rest.subspan(whole);
    if (const std::string fault = FaultOfName(name); !fault.empty())
      return DamagedArchive(shown + fault);
    if (name.ends_with('/') && place.stored == 0) continue;  // a folder
    if ((flags & 1) != 0) return DamagedArchive(shown + "is encrypted");
    if (method != 0 && method != 8)
      return DamagedArchive(shown + "is compressed by a method that is not read (" +
                            std::to_string(method) + ")");
    const auto begin = DataBegin(bytes, place.offset, name);
    if (!begin) return DamagedArchive(shown + "is not where the directory says");
    if (place.stored > bytes.size() - *begin)
      return DamagedArchive(shown + "ends outside the file");
    if (method == 0 && place.stored != place.bytes) return DamagedArchive(shown + "has two sizes");
    if (method == 8 && place.bytes / kMostRatio > place.stored + 1)
      return DamagedArchive(shown + "claims to be more than " + std::to_string(kMostRatio) +
                            " times as large as it is");
    if (!zip.by_name_.emplace(name, zip.members_.size()).second)
      return DamagedArchive(shown + "stands there twice");
    ranges.emplace_back(place.offset, *begin + place.stored);
    zip.members_.push_back({name, bytes.subspan(*begin, place.stored), method == 8, place.bytes});
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second)
      return DamagedArchive("members lie over each other");
  }
  return zip;
}

const ZipMember* ZipFile::Find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &members_[found->second];
}

Result<std::vector<uint8_t>> Inflate(std::span<const uint8_t> deflated, uint64_t most) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return Unavailable("zlib cannot be started.");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  std::vector<uint8_t> out;
  size_t filled = 0;
  int code = Z_OK;
  while (code == Z_OK && filled < most) {
    if (stream.avail_in == 0 && !deflated.empty()) {
      const size_t piece = std::min<size_t>(deflated.size(), size_t{1} << 30);
      stream.next_in = const_cast<uint8_t*>(deflated.data());
      stream.avail_in = static_cast<uInt>(piece);
      deflated = deflated.subspan(piece);
    }
    if (filled == out.size())  // grows with what really comes, not with what is claimed
      out.resize(std::min<uint64_t>(most, std::max<uint64_t>(2 * out.size(), 1 << 14)));
    stream.next_out = out.data() + filled;
    stream.avail_out = static_cast<uInt>(std::min<size_t>(out.size() - filled, size_t{1} << 30));
    const auto before = stream.avail_out;
    code = inflate(&stream, Z_NO_FLUSH);
    filled += before - stream.avail_out;
  }
  if (code != Z_OK && code != Z_STREAM_END) return DamagedArchive("compressed data are damaged");
  out.resize(filled);
  return out;
}

Result<std::vector<uint8_t>> WholeMember(const ZipMember& member, uint64_t most) {
  const std::string shown = "member '" + EscapeControl(member.name, 200) + "' ";
  if (member.bytes > most) {
    return InvalidInput("zip: " + shown + "has " + std::to_string(member.bytes) +
                            " bytes; the limit is " + std::to_string(most) + ".",
                        "Save it without compression, or as .safetensors.");
  }
  if (!member.deflated) return std::vector<uint8_t>(member.stored.begin(), member.stored.end());
  auto bytes = Inflate(member.stored, member.bytes + 1);
  if (!bytes) return bytes.error();
  if (bytes->size() != member.bytes) return DamagedArchive(shown + "has another size than it says");
  return bytes;
}

}  // namespace mpnanny::tensor_files
