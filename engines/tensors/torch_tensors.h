// The tensors in what torch.save pickled: walks dicts, lists and objects, and takes apart the calls
// that would rebuild a tensor.
//
// A free function without state. Bounded in depth, visits and bytes of keys, whatever refers to
// what.
#ifndef MPNANNY_ENGINES_TENSORS_TORCH_TENSORS_H_
#define MPNANNY_ENGINES_TENSORS_TORCH_TENSORS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "engines/tensors/pickle.h"
#include "engines/tensors/tensor_file.h"
#include "engines/tensors/torch_names.h"

namespace mpnanny::tensor_files {

inline constexpr int kMostDepth = 100;
inline constexpr size_t kMostVisits = 2'000'000;
inline constexpr size_t kMostKeyBytes = size_t{256} << 20;  // of all keys
inline constexpr size_t kLongestKey = 2'000;

// persistent id ('storage', type, key, location, number of elements).
struct StorageId {
  NamedType type;
  std::string_view key;
  int64_t elements = 0;
};
// False for anything else.
bool TakeStorageId(const Pickle& pickle, NodeId id, StorageId& storage);

// Where a storage's bytes are.
struct StoragePlace {
  std::span<const uint8_t> bytes;
  bool deflated = false;
  uint64_t size = 0;    // once inflated
  std::string problem;  // why there are none; empty if there are
};
using FindStorage = std::function<StoragePlace(const StorageId&)>;

// Appends to `contents` what is found below the root. Keys begin with `prefix`.
void CollectTensors(const Pickle& pickle, const std::string& prefix, bool big_endian,
                    const FindStorage& find, Contents& contents);

}  // namespace mpnanny::tensor_files

#endif  // MPNANNY_ENGINES_TENSORS_TORCH_TENSORS_H_
