// .npz: a ZIP file of .npy files.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_TENSORS_NPZ_H_
#define MPNANNY_ENGINES_TENSORS_NPZ_H_

#include "base/result.h"
#include "engines/tensors/tensor_file.h"
#include "engines/tensors/zip.h"

namespace mpnanny::tensor_files {

// Compressed members whose headers are decompressed to be listed.
inline constexpr size_t kMostCompressed = 50'000;

bool IsNpz(const ZipFile& zip);
Result<Contents> ReadNpz(const ZipFile& zip);

}  // namespace mpnanny::tensor_files

#endif  // MPNANNY_ENGINES_TENSORS_NPZ_H_
