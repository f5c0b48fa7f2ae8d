// The bounds check of all readers: where do the elements of a tensor lie, in numbers that cannot
// overflow.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_TENSORS_EXTENT_H_
#define MPNANNY_ENGINES_TENSORS_EXTENT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace mpnanny::tensor_files {

inline constexpr size_t kMostDimensions = 64;  // torch's own limit

// Product of the sizes; absent if one is negative, there are too many, or it is beyond int64.
std::optional<int64_t> ElementCount(std::span<const int64_t> shape);

// Bytes of so many elements, whole bytes only; absent beyond int64.
std::optional<int64_t> ByteCount(int64_t elements, int bits);

// Why the elements [0, 0, …] + Σ index·stride, counted from `first`, do not all lie among
// `elements` of them; empty if they do. Strides count elements, as do `first` and `elements`;
// negative strides are refused, as torch does. Empty strides: contiguous.
std::string OutsideStorage(std::span<const int64_t> shape, std::span<const int64_t> strides,
                           int64_t first, int64_t elements);

// Number of the last of those elements, of a shape that is not empty and for which
// OutsideStorage() said nothing.
int64_t LastElement(std::span<const int64_t> shape, std::span<const int64_t> strides,
                    int64_t first);

}  // namespace mpnanny::tensor_files

#endif  // MPNANNY_ENGINES_TENSORS_EXTENT_H_
