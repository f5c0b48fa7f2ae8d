#include "engines/tensors/torch_legacy.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/text.h"
#include "engines/tensors/extent.h"
#include "engines/tensors/pickle.h"
#include "engines/tensors/torch_names.h"
#include "engines/tensors/torch_tensors.h"

namespace mpnanny::tensor_files {
namespace {

// The pickled magic number, protocol 2.
constexpr std::string_view kLegacyMagic(
    "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e", 15);

Error DamagedPickle(const std::string& what) {
  return DataCorrupt("torch: " + what + ".", "The file is damaged or was not written whole.");
}

// Takes one pickle from the front of `rest`.
Result<Pickle> Next(std::span<const uint8_t>& rest) {
  auto pickle = ReadPickle(rest.first(std::min<uint64_t>(rest.size(), kMostPickleBytes)));
  if (pickle) rest = rest.subspan(pickle->bytes);
  return pickle;
}

bool IsLittleEndian(const Pickle& system) {
  const auto& pairs = system[system.root].pairs;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (system[pairs[i]].text == "little_endian") return system[pairs[i + 1]].integer != 0;
  }
  return true;
}

uint64_t Count(std::span<const uint8_t> bytes, bool little_endian) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value = value << 8 | bytes[little_endian ? 7 - i : i];
  return value;
}

}  // namespace

bool LooksLikeTorchLegacy(std::span<const uint8_t> bytes) {
  return AsText(bytes).starts_with(kLegacyMagic);
}

Result<Contents> ReadTorchLegacy(std::span<const uint8_t> bytes) {
  if (!LooksLikeTorchLegacy(bytes)) return InvalidInput("No file of torch.save.");
  auto rest = bytes.subspan(kLegacyMagic.size());
  MPN_TRY_ASSIGN(const auto protocol, Next(rest));
  if (protocol[protocol.root].integer != 1001) return DamagedPickle("a protocol that is not known");
  MPN_TRY_ASSIGN(const auto system, Next(rest));
  const bool little_endian = IsLittleEndian(system);
  MPN_TRY_ASSIGN(const auto object, Next(rest));
  MPN_TRY_ASSIGN(const auto keys, Next(rest));

  // The type of a storage stands where it is used only.
  std::map<std::string_view, const ElementType*> types;
  for (NodeId id = 0; id < object.nodes.size(); ++id) {
    StorageId storage;
    if (TakeStorageId(object, id, storage)) types.emplace(storage.key, storage.type.type);
  }
  std::map<std::string_view, StoragePlace> places;
  Contents contents;
  contents.format = "torch";
  for (const NodeId id : keys[keys.root].items) {
    const std::string_view key = keys[id].text;
    const auto type = types.find(key);
    if (type == types.end() || type->second == nullptr) {
      contents.notes.push_back("the storages end at one whose type is not known");
      break;
    }
    if (rest.size() < 8) {
      contents.notes.push_back("the file ends before its storages do");
      break;
    }
    const uint64_t elements = Count(rest, little_endian);
    rest = rest.subspan(8);
    const auto size = elements > INT64_MAX
                          ? std::nullopt
                          : ByteCount(static_cast<int64_t>(elements), type->second->bits);
    if (!size || static_cast<uint64_t>(*size) > rest.size()) {
      contents.notes.push_back("the file ends before its storages do");
      break;
    }
    const auto length = static_cast<size_t>(*size);
    places.emplace(key, StoragePlace{rest.first(length), false, length, ""});
    rest = rest.subspan(length);
  }
  const FindStorage find = [&](const StorageId& id) {
    const auto found = places.find(id.key);
    if (found != places.end()) return found->second;
    StoragePlace none;
    none.problem = "its storage '" + EscapeControl(id.key, 100) + "' is not in the file";
    return none;
  };
  CollectTensors(object, "", !little_endian, find, contents);
  for (std::string& note : NotesOfImports(object)) contents.notes.push_back(std::move(note));
  return contents;
}

}  // namespace mpnanny::tensor_files
