#include "engines/worker/diff/comparison.h"

#include <ATen/ATen.h>

#include "engines/worker/tensor_types.h"

namespace mpnanny::worker {
namespace {

at::Tensor Plain(const at::Tensor& tensor) {
  const at::Tensor own = tensor.detach();
  if (own.is_complex()) return at::view_as_real(own.resolve_conj());
  return own.is_neg() ? own.resolve_neg() : own;
}

}  // namespace

std::optional<ReferenceError> Compare(const at::Tensor& held, const at::Tensor& reference) {
  if (!held.defined() || !reference.defined() || held.numel() != reference.numel())
    return std::nullopt;
  const at::Tensor a = Plain(held), b = Plain(reference);
  const DType of_held = DTypeOf(a.scalar_type()), of_reference = DTypeOf(b.scalar_type());
  if (of_held == DType::kUnknown || of_reference == DType::kUnknown || a.numel() == 0)
    return std::nullopt;
  const auto view = [](const at::Tensor& tensor, DType dtype) {
    return TensorView{tensor.const_data_ptr(),
                      dtype,
                      {tensor.sizes().data(), tensor.sizes().size()},
                      {tensor.strides().data(), tensor.strides().size()},
                      nullptr};
  };
  return CompareWithReference(view(a, of_held), view(b, of_reference));
}

}  // namespace mpnanny::worker
