#include "engines/tensors/torch_archive.h"

#include <string>
#include <utility>

#include "base/text.h"
#include "engines/tensors/pickle.h"
#include "engines/tensors/torch_names.h"
#include "engines/tensors/torch_tensors.h"

namespace mpnanny::tensor_files {
namespace {

// The member `name` of the archive's one folder, whatever that is called.
const ZipMember* InFolder(const ZipFile& zip, std::string_view name) {
  for (const ZipMember& member : zip.members()) {
    if (!member.name.ends_with(name)) continue;
    const std::string folder = member.name.substr(0, member.name.size() - name.size());
    const size_t slash = folder.find('/');
    if (folder.empty() || slash == folder.size() - 1) return &member;
  }
  return nullptr;
}

// Tensors of one pickle, whose storages are members of `folder`.
Result<void> ReadPickled(const ZipFile& zip, const ZipMember& pickled, const std::string& folder,
                         const std::string& prefix, bool big_endian, Contents& contents) {
  std::vector<uint8_t> inflated;
  std::span<const uint8_t> bytes = pickled.stored;
  if (pickled.deflated) {
    auto whole = WholeMember(pickled, kMostPickleBytes);
    if (!whole) return whole.error();
    inflated = *std::move(whole);
    bytes = inflated;
  }
  MPN_TRY_ASSIGN(const auto pickle, ReadPickle(bytes));
  const FindStorage find = [&](const StorageId& id) {
    StoragePlace place;
    // A key is a short number; one that is long would be copied for every tensor.
    const ZipMember* const member =
        id.key.size() > 1000 ? nullptr : zip.Find(folder + std::string(id.key));
    if (member == nullptr) {
      place.problem = "its storage '" + EscapeControl(id.key, 100) + "' is not in the file";
    } else {
      place = {member->stored, member->deflated, member->bytes, ""};
    }
    return place;
  };
  CollectTensors(pickle, prefix, big_endian, find, contents);
  for (std::string& note : NotesOfImports(pickle)) contents.notes.push_back(std::move(note));
  return {};
}

}  // namespace

bool IsTorchArchive(const ZipFile& zip) { return InFolder(zip, "data.pkl") != nullptr; }

Result<Contents> ReadTorchArchive(const ZipFile& zip) {
  const ZipMember* const data = InFolder(zip, "data.pkl");
  if (data == nullptr) return InvalidInput("No archive of torch.save: there is no data.pkl.");
  const std::string folder = data->name.substr(0, data->name.size() - 8);
  const ZipMember* const order = zip.Find(folder + "byteorder");
  const bool big_endian = order != nullptr && AsText(order->stored) == "big";
  Contents contents;
  contents.format = "torch";
  MPN_TRY(ReadPickled(zip, *data, folder + "data/", "", big_endian, contents));
  if (const ZipMember* const constants = zip.Find(folder + "constants.pkl")) {
    contents.format = "torchscript";
    auto read =
        ReadPickled(zip, *constants, folder + "constants/", "constants", big_endian, contents);
    if (!read) contents.notes.push_back("constants.pkl: " + read.error().message);
  }
  return contents;
}

}  // namespace mpnanny::tensor_files
