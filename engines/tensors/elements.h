// The elements of one entry, as numerics/ wants them.
//
// Borrows the file's bytes where they can be used as they lie; owns a copy where they must be
// decompressed, swapped, moved to an aligned address, or are integers. Movable, not copyable;
// immutable, so it may be read from several threads. Must not outlive the TensorFile.
#ifndef MPNANNY_ENGINES_TENSORS_ELEMENTS_H_
#define MPNANNY_ENGINES_TENSORS_ELEMENTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "engines/tensors/tensor_file.h"
#include "numerics/tensor_view.h"

namespace mpnanny::tensor_files {

// Bytes of the largest copy.
inline constexpr uint64_t kMostCopied = uint64_t{2} << 30;

class Elements {
 public:
  // InvalidInput with entry.problem, or where a copy would be too large; DataCorrupt if a member
  // cannot be decompressed.
  static Result<Elements> Read(const Entry& entry);

  // FP64 where the file holds integers or booleans (beyond 2^53 rounded to nearest).
  TensorView view() const { return {data_, dtype_, shape_, strides_, nullptr}; }

 private:
  Elements() = default;

  std::unique_ptr<uint8_t[]> copy_;
  const void* data_ = nullptr;
  DType dtype_ = DType::kUnknown;
  std::vector<int64_t> shape_, strides_;
};

}  // namespace mpnanny::tensor_files

#endif  // MPNANNY_ENGINES_TENSORS_ELEMENTS_H_
