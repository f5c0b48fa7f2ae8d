#include "engines/tensors/tensor_file.h"

#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"
#include "engines/tensors/exported_program.h"
#include "engines/tensors/extent.h"
#include "engines/tensors/npy.h"
#include "engines/tensors/npz.h"
#include "engines/tensors/safetensors.h"
#include "engines/tensors/shard_index.h"
#include "engines/tensors/torch_archive.h"
#include "engines/tensors/torch_legacy.h"
#include "engines/tensors/zip.h"

namespace mpnanny::tensor_files {
namespace {

constexpr size_t kMostIndexBytes = size_t{32} << 20;
// An expanded tensor has more elements than its storage. Beyond this many nobody waits for them.
constexpr int64_t kMostRepeated = int64_t{1} << 32;
constexpr const char* kFormats =
    "What is read: .safetensors, .npy, .npz, .pt and .pth of torch.save, .pt2 of "
    "torch.export.save, and the *.index.json of shards.";

Result<Contents> ReadZipped(std::span<const uint8_t> bytes) {
  MPN_TRY_ASSIGN(const auto zip, ZipFile::Read(bytes));
  if (IsExportedProgram(zip)) return ReadExportedProgram(zip);
  if (IsTorchArchive(zip)) return ReadTorchArchive(zip);
  if (IsNpz(zip)) return ReadNpz(zip);
  return InvalidInput("A ZIP file without tensors.", kFormats);
}

Result<Contents> ReadByBeginning(std::span<const uint8_t> bytes) {
  if (bytes.empty()) return InvalidInput("The file is empty.", kFormats);
  if (LooksLikeNpy(bytes)) return ReadNpy(bytes);
  if (LooksLikeSafetensors(bytes)) return ReadSafetensors(bytes);
  if (LooksLikeZip(bytes)) return ReadZipped(bytes);
  if (LooksLikeTorchLegacy(bytes)) return ReadTorchLegacy(bytes);
  return InvalidInput("No format of tensors that is known: the file begins with '" +
                          EscapeControl(AsText(bytes.first(std::min<size_t>(bytes.size(), 8)))) +
                          "'.",
                      kFormats);
}

Error About(const std::string& path, Error error) {
  error.message = EscapeControl(path, 500) + ": " + error.message;
  return error;
}

}  // namespace

std::string FaultOf(const Entry& entry) {
  if (entry.type == nullptr) return "its dtype is not known";
  if (entry.type->reading == Reading::kNone)
    return std::string(entry.type->name) + " holds no numbers that are judged here";
  if (entry.skip > entry.storage_bytes) return "it begins outside its storage";
  const uint64_t width = static_cast<uint64_t>(entry.type->bits) / 8;
  const auto elements = static_cast<int64_t>((entry.storage_bytes - entry.skip) / width);
  if (!entry.deflated && entry.storage.size() < entry.storage_bytes) return "its storage is cut";
  std::string fault = OutsideStorage(entry.shape, entry.strides, entry.first, elements);
  if (!fault.empty()) return fault;
  const int64_t count = *ElementCount(entry.shape);
  if (count > kMostRepeated && count > elements)
    return "its " + std::to_string(count) + " elements repeat a storage of " +
           std::to_string(elements);
  return "";
}

Result<Contents> ReadContents(std::span<const uint8_t> bytes) {
  auto contents = ReadByBeginning(bytes);
  if (!contents) return contents;
  for (Entry& entry : contents->entries) {
    if (entry.problem.empty()) entry.problem = FaultOf(entry);
  }
  return contents;
}

Result<TensorFile> TensorFile::Open(const std::string& path, const Resolve& resolve) {
  auto view = FileView::Open(path);
  if (!view) return view.error();
  const auto bytes = view->bytes();
  TensorFile file;
  if (bytes.empty() || bytes[0] != '{' || bytes.size() > kMostIndexBytes) {
    auto contents = ReadContents(bytes);
    if (!contents) return About(path, contents.error());
    file.contents_ = *std::move(contents);
    file.views_.push_back(*std::move(view));
    return file;
  }
  auto index = ReadShardIndex(AsText(bytes));
  if (!index) return About(path, index.error());
  std::set<std::string> names;
  for (const auto& [key, name] : *index) names.insert(name);
  if (names.size() > kMostShards) {
    return About(path, InvalidInput("an index of " + std::to_string(names.size()) +
                                    " files; the limit is " + std::to_string(kMostShards) + "."));
  }
  std::map<std::string, Shard> shards;
  for (const std::string& name : names) shards[name] = file.AddShard(path, name, *index, resolve);
  for (const auto& [key, name] : *index) {
    Shard& shard = shards[name];
    const auto found = shard.entries.find(key);
    if (found != shard.entries.end()) {
      file.contents_.entries.push_back(std::move(found->second));
      continue;
    }
    Entry& missing = file.contents_.entries.emplace_back();
    missing.key = key;
    missing.problem = shard.problem.empty() ? "it is not in " + EscapeControl(name, 200)
                                            : EscapeControl(name, 200) + " is not read";
  }
  return file;
}

// Entries of one file that the index names; what is wrong with it is a note.
TensorFile::Shard TensorFile::AddShard(const std::string& path_of_index, const std::string& name,
                                       const std::map<std::string, std::string>& index,
                                       const Resolve& resolve) {
  Shard shard;
  const auto fail = [&](const Error& error) {
    shard.problem = error.Text();
    contents_.notes.push_back(EscapeControl(name, 200) + ": " + shard.problem);
    return std::move(shard);
  };
  const auto path =
      resolve((std::filesystem::path(path_of_index).parent_path() / name).generic_string());
  if (!path) return fail(path.error());
  auto view = FileView::Open(*path);
  if (!view) return fail(view.error());
  auto contents = ReadContents(view->bytes());
  if (!contents) return fail(contents.error());
  if (contents_.format.empty()) contents_.format = contents->format;
  for (std::string& note : contents->notes)
    contents_.notes.push_back(EscapeControl(name, 200) + ": " + note);
  for (Entry& entry : contents->entries) {
    std::string key = entry.key;
    const auto wanted = index.find(key);
    if (wanted == index.end() || wanted->second != name) continue;
    shard.entries.emplace(std::move(key), std::move(entry));
  }
  views_.push_back(*std::move(view));
  return shard;
}

bool TensorFile::changed() const {
  for (const FileView& view : views_) {
    if (view.changed()) return true;
  }
  return false;
}

}  // namespace mpnanny::tensor_files
