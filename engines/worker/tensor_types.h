// Element types in torch's, numerics', tensor_files' and the judge's words, and what kind of tensor
// one is.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_WORKER_TENSOR_TYPES_H_
#define MPNANNY_ENGINES_WORKER_TENSOR_TYPES_H_

#include <ATen/core/TensorBody.h>

#include <optional>
#include <string>

#include "engines/judgement/element.h"
#include "engines/tensors/element_type.h"
#include "numerics/tensor_view.h"

namespace mpnanny::worker {

std::optional<c10::ScalarType> ScalarTypeOf(const tensor_files::ElementType& type);
std::optional<c10::ScalarType> ScalarTypeByName(std::string_view name);  // torch's and short ones
std::string NameOf(c10::ScalarType type);                                // "float32"

// FP64 of floating-point, complex FP64 of complex types.
c10::ScalarType Wide(c10::ScalarType type);
bool IsFloat(c10::ScalarType type);  // floating-point or complex
bool IsFloat(const at::Tensor& tensor);
bool IsDense(const at::Tensor& tensor);  // defined, strided and not quantized
// What dense tensors that share their elements share; null of others.
const void* MemoryOf(const at::Tensor& tensor);
// 16 bits and less.
bool IsNarrow(c10::ScalarType type);

judgement::Element ElementOf(c10::ScalarType type);
DType DTypeOf(c10::ScalarType type);

}  // namespace mpnanny::worker

#endif  // MPNANNY_ENGINES_WORKER_TENSOR_TYPES_H_
