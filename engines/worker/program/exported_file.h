// What lies in a .pt2: the description of its program and its tensors.
//
// Owns copies of all of it. The format: torch/_export/serde/schema.py and torch/export/pt2_archive.
#ifndef MPNANNY_ENGINES_WORKER_PROGRAM_EXPORTED_FILE_H_
#define MPNANNY_ENGINES_WORKER_PROGRAM_EXPORTED_FILE_H_

#include <ATen/core/TensorBody.h>

#include <map>
#include <string>

#include "base/json.h"

namespace mpnanny::worker {

struct ExportedFile {
  Json graph_module;
  std::map<std::string, at::Tensor> tensors;  // parameters, buffers and constants by name
};

// Throws ModelProblem.
ExportedFile ReadExportedFile(const std::string& path);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_PROGRAM_EXPORTED_FILE_H_
