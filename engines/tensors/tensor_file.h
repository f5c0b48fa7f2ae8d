// A file of tensors: what is in it, and where.
//
// Owns the maps of its files; movable, not copyable. Immutable once open, so it may be read from
// several threads. Opening reads the table of contents only; elements.h reads elements.
//
//   auto file = TensorFile::Open(path, resolve);
//   for (const Entry& entry : file->entries()) {
//     auto elements = Elements::Read(entry);   // elements.h
//     if (elements) Use(elements->view());     // a TensorView of numerics/
//   }
#ifndef MPNANNY_ENGINES_TENSORS_TENSOR_FILE_H_
#define MPNANNY_ENGINES_TENSORS_TENSOR_FILE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/os_file_view.h"
#include "base/result.h"
#include "engines/tensors/element_type.h"

namespace mpnanny::tensor_files {

inline constexpr size_t kMostEntries = 1'000'000;
inline constexpr size_t kMostShards = 512;

struct Entry {
  std::string key;  // as the file has it; inside a checkpoint joined by "."
  const ElementType* type = nullptr;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // in elements; empty: contiguous in C order
  int64_t first = 0;             // element of the storage that is [0, 0, …]
  // The storage: bytes of a map, or of a deflated member that holds `storage_bytes` once inflated,
  // after the first `skip` bytes of it.
  std::span<const uint8_t> storage;
  bool deflated = false;
  uint64_t storage_bytes = 0;
  uint64_t skip = 0;
  bool big_endian = false;
  std::string problem;  // why its elements cannot be read; empty if they can
};

// What a reader finds. Pointers into the bytes that it was given.
struct Contents {
  std::string format;  // "safetensors", "npy", "npz", "torch", "torchscript", "pt2"
  std::vector<Entry> entries;
  std::vector<std::string> notes;  // for people: what was left out, what Python would execute
};

class TensorFile {
 public:
  // `resolve` says whether a further path (a shard) may be opened, and its canonical form.
  // DataCorrupt with what is wrong and where for a damaged file; InvalidInput for another format.
  using Resolve = std::function<Result<std::string>(const std::string& path)>;
  static Result<TensorFile> Open(const std::string& path, const Resolve& resolve);

  const std::string& format() const { return contents_.format; }
  const std::vector<Entry>& entries() const { return contents_.entries; }
  const std::vector<std::string>& notes() const { return contents_.notes; }

  // True if the file was cut short since it was opened; see FileView.
  bool changed() const;

 private:
  struct Shard {
    std::map<std::string, Entry> entries;
    std::string problem;  // why the file is not read
  };
  Shard AddShard(const std::string& path_of_index, const std::string& name,
                 const std::map<std::string, std::string>& index, const Resolve& resolve);

  std::vector<FileView> views_;
  Contents contents_;
};

// The reader for these bytes, by what they begin with; of one file without shards. Every entry's
// bounds are checked here, whatever its reader did.
Result<Contents> ReadContents(std::span<const uint8_t> bytes);

// Why the elements of an entry cannot be read: no numbers, or not inside its storage. Empty if they
// can.
std::string FaultOf(const Entry& entry);

// Text of the file's bytes.
inline std::string_view AsText(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace mpnanny::tensor_files

#endif  // MPNANNY_ENGINES_TENSORS_TENSOR_FILE_H_
