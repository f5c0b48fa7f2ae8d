// A tensor's memory, borrowed: what an element is, and where the elements lie.
//
// Plain values; no state, safe from any thread.
#ifndef MPNANNY_NUMERICS_TENSOR_VIEW_H_
#define MPNANNY_NUMERICS_TENSOR_VIEW_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace mpnanny {

// What an element is. The numbers are those of `tensor_stats.dtype` in the database; never
// renumbered.
enum class DType : int32_t {
  kUnknown = 0,
  kFloat32 = 1,
  kFloat16 = 2,
  kBFloat16 = 3,
  kFloat64 = 4,
  kFloat8E4M3 = 5,
  kFloat8E5M2 = 6,
};
inline constexpr int kDTypes = 7;

std::string_view DTypeName(DType dtype);  // torch's name: "float16"
int ElementBytes(DType dtype);            // 0 for kUnknown

struct TensorStats;
// How many elements have each FP32 exponent field (0: zeros and subnormals, 255: NaN and
// infinities). FP64 elements are counted by the exponent that they would have in FP32, clamped to 0
// and 254.
using ExponentHistogram = std::array<int64_t, 256>;

// Borrowed tensor memory. `data` points at element [0, 0, …]; strides count elements and may be 0
// or negative. Rows of `shape` and `strides` are as many as dimensions; both empty means one
// element.
struct TensorView {
  const void* data = nullptr;
  DType dtype = DType::kUnknown;
  std::span<const int64_t> shape;
  std::span<const int64_t> strides;  // empty: contiguous in C order
  // What is known of a tensor whose memory is out of reach (on a device): every function of
  // numerics/ answers from it. Borrowed; `data`, shape and strides then have no meaning.
  const TensorStats* known = nullptr;
  const ExponentHistogram* known_exponents = nullptr;  // null where they are not known

  int64_t numel() const;
};

}  // namespace mpnanny

#endif  // MPNANNY_NUMERICS_TENSOR_VIEW_H_
