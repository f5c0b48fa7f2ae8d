#include "engines/worker/diff/comparison.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "engines/worker/tensor_types.h"

namespace mpnanny::worker {
namespace {

at::Tensor Plain(const at::Tensor& tensor) {
  const at::Tensor own = tensor.detach();
  if (own.is_complex()) return at::view_as_real(own.resolve_conj());
  return own.is_neg() ? own.resolve_neg() : own;
}

}  // namespace

std::optional<ReferenceError> Compare(const at::Tensor& held, const at::Tensor& reference,
                                      double floor) {
  if (!held.defined() || !reference.defined() || held.numel() != reference.numel())
    return std::nullopt;
  const at::Tensor a = Plain(held), b = Plain(reference);
  const DType of_held = DTypeOf(a.scalar_type()), of_reference = DTypeOf(b.scalar_type());
  if (of_held == DType::kUnknown || of_reference == DType::kUnknown) return std::nullopt;
  const auto view = [](const at::Tensor& tensor, DType dtype) {
    return TensorView{tensor.const_data_ptr(),
                      dtype,
                      {tensor.sizes().data(), tensor.sizes().size()},
                      {tensor.strides().data(), tensor.strides().size()},
                      nullptr};
  };
  return CompareWithReference(view(a, of_held), view(b, of_reference), floor);
}

double ErrorOf(const ReferenceError& found) {
  if (found.squared_error <= 0) return 0;
  if (found.squared_reference <= 0) return std::numeric_limits<double>::infinity();
  return std::sqrt(found.squared_error / found.squared_reference);
}

bool IsNoise(const ReferenceError& found, c10::ScalarType type) {
  const double half_ulp = HalfUlp(type) > 0 ? HalfUlp(type) : 0x1p-24;
  const double least = kRoundingOfReferences / half_ulp * std::sqrt(found.squared_error);
  return std::sqrt(found.squared_reference) <= least;
}

}  // namespace mpnanny::worker
