// Tensors of files as torch's tensors, in memory of their own.
//
// Tensors that lie in one storage of the file share memory here, as tied weights do. Must not
// outlive the file while it makes tensors; what it has made may.
#ifndef MPNANNY_ENGINES_WORKER_FILE_TENSORS_H_
#define MPNANNY_ENGINES_WORKER_FILE_TENSORS_H_

#include <ATen/core/TensorBody.h>

#include <cstddef>
#include <map>
#include <utility>

#include "engines/tensors/tensor_file.h"

namespace mpnanny::worker {

class FileTensors {
 public:
  // Throws ModelProblem with what is wrong with the entry.
  at::Tensor Make(const tensor_files::Entry& entry);

 private:
  // By where they lie in the file and how long they are.
  std::map<std::pair<const void*, size_t>, at::Tensor> memories_;
};

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_FILE_TENSORS_H_
