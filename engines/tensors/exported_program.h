// The weights and constants of a .pt2 that torch.export.save wrote.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_TENSORS_EXPORTED_PROGRAM_H_
#define MPNANNY_ENGINES_TENSORS_EXPORTED_PROGRAM_H_

#include "base/result.h"
#include "engines/tensors/tensor_file.h"
#include "engines/tensors/zip.h"

namespace mpnanny::tensor_files {

bool IsExportedProgram(const ZipFile& zip);
Result<Contents> ReadExportedProgram(const ZipFile& zip);

}  // namespace mpnanny::tensor_files

#endif  // MPNANNY_ENGINES_TENSORS_EXPORTED_PROGRAM_H_
