#include "engines/tensors/exported_program.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "engines/tensors/extent.h"
#include "engines/tensors/torch_archive.h"

namespace mpnanny::tensor_files {
namespace {

constexpr uint64_t kMostConfigBytes = uint64_t{32} << 20;  // of all descriptions together
constexpr std::string_view kWeights = "_weights_config.json";
constexpr std::string_view kConstants = "_constants_config.json";
constexpr std::string_view kOldWeights = "serialized_state_dict.pt";  // before torch 2.8
constexpr std::string_view kOldProgram = "serialized_exported_program.json";

// {"as_int": 3}, or the number itself.
bool TakeInteger(const Json& json, int64_t& value) {
  const Json& number = json.is_object() ? ValueAt(json, {"as_int"}) : json;
  if (!number.is_number_integer()) return false;
  if (number.is_number_unsigned() && number.get<uint64_t>() > INT64_MAX) return false;
  value = number.get<int64_t>();
  return true;
}

bool TakeIntegers(const Json& json, std::vector<int64_t>& values) {
  if (!json.is_array() || json.size() > kMostDimensions) return false;
  for (const Json& item : json) {
    if (!TakeInteger(item, values.emplace_back(0))) return false;
  }
  return true;
}

// Why there are no elements; empty if there are.
std::string Describe(const Json& payload, const ZipFile& zip, const std::string& folder,
                     Entry& entry) {
  const Json& meta = ValueAt(payload, {"tensor_meta"});
  const Json& path = ValueAt(payload, {"path_name"});
  int64_t type = 0;
  if (!meta.is_object() || !TakeIntegers(ValueAt(meta, {"sizes"}), entry.shape)) {
    entry.shape.clear();
    return "it is no tensor";
  }
  if (TakeInteger(ValueAt(meta, {"dtype"}), type)) entry.type = TypeByExported(type);
  const Json& pickled = ValueAt(payload, {"use_pickle"});
  if (pickled.is_boolean() && pickled.get<bool>()) return "it is pickled by Python";
  if (!TakeIntegers(ValueAt(meta, {"strides"}), entry.strides) ||
      !TakeInteger(ValueAt(meta, {"storage_offset"}), entry.first) || !path.is_string()) {
    return "its description is not whole";
  }
  const ZipMember* const member = zip.Find(folder + path.get<std::string>());
  if (member == nullptr)
    return "its member '" + EscapeControl(path.get<std::string>(), 100) + "' is not in the file";
  entry.storage = member->stored;
  entry.deflated = member->deflated;
  entry.storage_bytes = member->bytes;
  return "";
}

Result<void> ReadConfig(const ZipFile& zip, const ZipMember& member, bool big_endian,
                        uint64_t& budget, Contents& contents) {
  MPN_TRY_ASSIGN(auto text, WholeMember(member, budget));
  budget -= text.size();
  const auto json = ParseJson(AsText(text));
  if (!json) return DataCorrupt(json.error().message);
  const Json& config = ValueAt(*json, {"config"});
  if (!config.is_object()) return DataCorrupt("no \"config\".");
  const std::string folder = member.name.substr(0, member.name.rfind('/') + 1);
  for (const auto& [key, payload] : config.items()) {
    if (contents.entries.size() >= kMostEntries) break;
    Entry& entry = contents.entries.emplace_back();
    entry.key = key;
    entry.big_endian = big_endian;
    entry.problem = Describe(payload, zip, folder, entry);
  }
  return {};
}

// Weights that are a whole file of torch.save inside the archive.
void ReadOldWeights(const ZipMember& member, Contents& contents) {
  const auto fail = [&](const std::string& why) {
    contents.notes.push_back(EscapeControl(member.name, 200) + " is not read: " + why);
  };
  if (member.deflated) return fail("it is compressed");
  const auto inner = ZipFile::Read(member.stored);
  if (!inner) return fail(inner.error().message);
  if (!IsTorchArchive(*inner)) return fail("it is no archive of torch.save");
  auto read = ReadTorchArchive(*inner);
  if (!read) return fail(read.error().message);
  std::move(read->entries.begin(), read->entries.end(), std::back_inserter(contents.entries));
  std::move(read->notes.begin(), read->notes.end(), std::back_inserter(contents.notes));
}

}  // namespace

bool IsExportedProgram(const ZipFile& zip) {
  return std::any_of(zip.members().begin(), zip.members().end(), [](const ZipMember& member) {
    const std::string& name = member.name;
    return name.ends_with(kWeights) || name.ends_with(kConstants) || name.ends_with(kOldProgram) ||
           name.ends_with("/archive_format");
  });
}

Result<Contents> ReadExportedProgram(const ZipFile& zip) {
  Contents contents;
  contents.format = "pt2";
  bool big_endian = false, compiled = false, old_weights = false;
  uint64_t budget = kMostConfigBytes;
  for (const ZipMember& member : zip.members()) {
    big_endian =
        big_endian || (member.name.ends_with("byteorder") && AsText(member.stored) == "big");
    compiled = compiled || member.name.find("data/aotinductor/") != std::string::npos;
  }
  for (const ZipMember& member : zip.members()) {
    if (member.name.ends_with(kWeights) || member.name.ends_with(kConstants)) {
      if (auto read = ReadConfig(zip, member, big_endian, budget, contents); !read) {
        contents.notes.push_back(EscapeControl(member.name, 200) +
                                 " is not read: " + read.error().message);
      }
    } else if (member.name.ends_with(kOldWeights) && !old_weights) {
      old_weights = true;
      ReadOldWeights(member, contents);
    }
  }
  if (compiled) {
    contents.notes.push_back(
        "a compiled package (AOTInductor): the code in it was not run, and its weights are listed "
        "only where they lie beside it");
  }
  return contents;
}

}  // namespace mpnanny::tensor_files
