// .pt and .pth as torch.save writes them since 1.6: a ZIP file with a pickle and one member a
// storage. Also TorchScript's archives, which are the same and hold code beside it.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_TENSORS_TORCH_ARCHIVE_H_
#define MPNANNY_ENGINES_TENSORS_TORCH_ARCHIVE_H_

#include "base/result.h"
#include "engines/tensors/tensor_file.h"
#include "engines/tensors/zip.h"

namespace mpnanny::tensor_files {

bool IsTorchArchive(const ZipFile& zip);
Result<Contents> ReadTorchArchive(const ZipFile& zip);

}  // namespace mpnanny::tensor_files

#endif  // MPNANNY_ENGINES_TENSORS_TORCH_ARCHIVE_H_
