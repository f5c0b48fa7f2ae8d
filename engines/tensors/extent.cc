#include "engines/tensors/extent.h"

namespace mpnanny::tensor_files {
namespace {

// Absent beyond int64. No size is 0, no stride negative.
std::optional<int64_t> CheckedLast(std::span<const int64_t> shape, std::span<const int64_t> strides,
                                   int64_t first, int64_t count) {
  int64_t last = first;
  if (strides.empty() && __builtin_add_overflow(last, count - 1, &last)) return std::nullopt;
  for (size_t dim = 0; dim < strides.size(); ++dim) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(shape[dim] - 1, strides[dim], &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return std::nullopt;
    }
  }
  return last;
}

}  // namespace

std::optional<int64_t> ElementCount(std::span<const int64_t> shape) {
  if (shape.size() > kMostDimensions) return std::nullopt;
  int64_t count = 1;
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0) return std::nullopt;
    empty = empty || size == 0;
    // Also where another size is 0: torch and NumPy refuse such shapes too.
    if (size > 0 && __builtin_mul_overflow(count, size, &count)) return std::nullopt;
  }
  return empty ? 0 : count;
}

std::optional<int64_t> ByteCount(int64_t elements, int bits) {
  int64_t total = 0;
  if (__builtin_mul_overflow(elements, static_cast<int64_t>(bits), &total)) return std::nullopt;
  if (total % 8 != 0) return std::nullopt;
  return total / 8;
}

std::string OutsideStorage(std::span<const int64_t> shape, std::span<const int64_t> strides,
                           int64_t first, int64_t elements) {
  const auto count = ElementCount(shape);
  if (!count) return "its shape is negative, too large or of too many dimensions";
  if (!strides.empty() && strides.size() != shape.size())
    return "it has " + std::to_string(shape.size()) + " sizes and " +
           std::to_string(strides.size()) + " strides";
  if (first < 0) return "its offset is negative";
  for (const int64_t stride : strides) {
    if (stride < 0) return "it has a negative stride";
  }
  if (*count == 0) return first > elements ? "it begins outside its storage" : "";
  const auto last = CheckedLast(shape, strides, first, *count);
  if (!last) return "its end is beyond any storage";
  if (*last < elements) return "";
  return "its last element is number " + std::to_string(*last) + " of a storage of " +
         std::to_string(elements);
}

int64_t LastElement(std::span<const int64_t> shape, std::span<const int64_t> strides,
                    int64_t first) {
  return *CheckedLast(shape, strides, first, *ElementCount(shape));
}

}  // namespace mpnanny::tensor_files
