// .safetensors: u64 length of the header, the header as JSON, then the tensors' bytes.
//
// Free functions without state. As strict as the format's own reader: ranges must tile the data
// without holes and overlaps, and no key may stand twice.
#ifndef MPNANNY_ENGINES_TENSORS_SAFETENSORS_H_
#define MPNANNY_ENGINES_TENSORS_SAFETENSORS_H_

#include <cstdint>
#include <span>

#include "base/result.h"
#include "engines/tensors/tensor_file.h"

namespace mpnanny::tensor_files {

// True if it may be one: a length that fits and a header that begins with "{".
bool LooksLikeSafetensors(std::span<const uint8_t> bytes);
Result<Contents> ReadSafetensors(std::span<const uint8_t> bytes);

}  // namespace mpnanny::tensor_files

#endif  // MPNANNY_ENGINES_TENSORS_SAFETENSORS_H_
