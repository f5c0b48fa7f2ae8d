// .pt and .pth as torch.save wrote them before 1.6 (and does with
// _use_new_zipfile_serialization=False): five pickles one after the other, then the storages.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_TENSORS_TORCH_LEGACY_H_
#define MPNANNY_ENGINES_TENSORS_TORCH_LEGACY_H_

#include <cstdint>
#include <span>

#include "base/result.h"
#include "engines/tensors/tensor_file.h"

namespace mpnanny::tensor_files {

bool LooksLikeTorchLegacy(std::span<const uint8_t> bytes);
Result<Contents> ReadTorchLegacy(std::span<const uint8_t> bytes);

}  // namespace mpnanny::tensor_files

#endif  // MPNANNY_ENGINES_TENSORS_TORCH_LEGACY_H_
