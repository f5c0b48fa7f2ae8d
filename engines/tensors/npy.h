// .npy: a header that is a Python dict literal, then the array's bytes.
//
// Free functions without state. The literal is read by a small grammar of its own, never evaluated.
#ifndef MPNANNY_ENGINES_TENSORS_NPY_H_
#define MPNANNY_ENGINES_TENSORS_NPY_H_

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "engines/tensors/tensor_file.h"

namespace mpnanny::tensor_files {

inline constexpr size_t kMostNpyHeader = 10'000;  // NumPy's own limit

bool LooksLikeNpy(std::span<const uint8_t> bytes);

// `head`: the file's first bytes, at least as many as the header has; `total`: bytes of the whole
// file. Fills shape, strides, type and `skip` (bytes before the first element); not the storage.
Result<Entry> ReadNpyHeader(std::span<const uint8_t> head, uint64_t total);

Result<Contents> ReadNpy(std::span<const uint8_t> bytes);

}  // namespace mpnanny::tensor_files

#endif  // MPNANNY_ENGINES_TENSORS_NPY_H_
