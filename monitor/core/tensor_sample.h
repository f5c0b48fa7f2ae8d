// A fixed sample of a tensor: the same elements in every step, chosen by no random number.
//
// Runs of kSampleRun elements in even spacing over the tensor's memory, all of it where it is small
// enough. Only for tensors that fill one stretch of memory (in whatever order of dimensions), which
// weights, their gradients and the optimizer's states do. Borrowed memory; no copy.
#ifndef MPNANNY_MONITOR_CORE_TENSOR_SAMPLE_H_
#define MPNANNY_MONITOR_CORE_TENSOR_SAMPLE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "numerics/tensor_view.h"

namespace mpnanny {

inline constexpr int64_t kSampleRun = 1024;

struct TensorSample {
  const void* data = nullptr;
  DType dtype = DType::kUnknown;
  std::array<int64_t, 2> shape{}, strides{};  // of runs within the memory

  TensorView view() const { return {data, dtype, shape, strides}; }
  int64_t numel() const { return shape[0] * shape[1]; }
};

// Whether the elements fill their memory, each once: in whatever order of dimensions.
inline bool IsDense(const TensorView& view) {
  int64_t last = 0;
  for (size_t i = 0; i < view.strides.size(); ++i) {
    if (view.shape[i] > 1 && view.strides[i] <= 0) return false;
    last += (view.shape[i] - 1) * view.strides[i];
  }
  return view.strides.empty() || last + 1 == view.numel();
}

// At most `limit` elements (at least one run); empty for a tensor whose memory has gaps, or runs
// backwards.
inline std::optional<TensorSample> SampleOf(const TensorView& view, int64_t limit) {
  if (view.known != nullptr) return std::nullopt;
  const int64_t numel = view.numel();
  if (numel == 0 || !IsDense(view)) return std::nullopt;
  if (numel <= std::max(limit, kSampleRun))
    return TensorSample{view.data, view.dtype, {1, numel}, {numel, 1}};
  const int64_t runs = std::max<int64_t>(1, limit / kSampleRun);
  return TensorSample{view.data, view.dtype, {runs, kSampleRun}, {numel / runs, 1}};
}

// True if the n-th element of both samples is the same element of their tensors.
inline bool SameLayout(const TensorView& a, const TensorView& b) {
  return std::ranges::equal(a.shape, b.shape) && std::ranges::equal(a.strides, b.strides);
}

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_CORE_TENSOR_SAMPLE_H_
