#include "engines/tensors/npz.h"

#include <algorithm>
#include <utility>

#include "engines/tensors/npy.h"

namespace mpnanny::tensor_files {
namespace {

constexpr std::string_view kSuffix = ".npy";

Result<Entry> ReadMember(const ZipMember& member) {
  if (!member.deflated) return ReadNpyHeader(member.stored, member.bytes);
  // The header alone, not the array.
  MPN_TRY_ASSIGN(auto head,
                 Inflate(member.stored, std::min<uint64_t>(member.bytes, kMostNpyHeader + 12)));
  return ReadNpyHeader(head, member.bytes);
}

}  // namespace

bool IsNpz(const ZipFile& zip) {
  return std::any_of(zip.members().begin(), zip.members().end(),
                     [](const ZipMember& member) { return member.name.ends_with(kSuffix); });
}

Result<Contents> ReadNpz(const ZipFile& zip) {
  Contents contents;
  contents.format = "npz";
  size_t others = 0, compressed = 0, left_out = 0;
  for (const ZipMember& member : zip.members()) {
    if (!member.name.ends_with(kSuffix)) {
      ++others;
      continue;
    }
    if (member.deflated && ++compressed > kMostCompressed) {
      ++left_out;
      continue;
    }
    // An array that is damaged does not hide the others.
    auto read = ReadMember(member);
    Entry& entry = contents.entries.emplace_back(read ? *std::move(read) : Entry{});
    if (!read) entry.problem = read.error().message;
    entry.key = member.name.substr(0, member.name.size() - kSuffix.size());
    entry.storage = member.stored;
    entry.deflated = member.deflated;
    entry.storage_bytes = member.bytes;
  }
  if (others > 0)
    contents.notes.push_back(std::to_string(others) + " members of the archive are no arrays");
  if (left_out > 0)
    contents.notes.push_back(std::to_string(left_out) + " compressed arrays were left out");
  return contents;
}

}  // namespace mpnanny::tensor_files
