// The reference: one element after the other, in the plainest words. Compiled for every machine.
#include <bit>
#include <cmath>
#include <cstring>

#include "numerics/format.h"
#include "numerics/kernels.h"

namespace mpnanny::internal {
namespace {

// Through the bits: the processor may be set to read subnormals as 0.
double Widen(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto magnitude = static_cast<int32_t>(bits & static_cast<uint32_t>(kMagnitude));
  if (magnitude >= 0x00800000) return static_cast<double>(value);
  return std::copysign(magnitude * 0x1p-149, bits >> 31 != 0 ? -1.0 : 1.0);
}

struct Float32 {
  using Stored = float;
  static double Decode(Stored value) { return Widen(value); }
};
struct Float64 {
  using Stored = double;
  static double Decode(Stored value) { return value; }
};
template <typename Bits, float (*kDecode)(Bits)>
struct Small {
  using Stored = Bits;
  static double Decode(Stored bits) { return Widen(kDecode(bits)); }
};
using Float16 = Small<uint16_t, Fp16ToFloat>;
using Bfloat16 = Small<uint16_t, Bf16ToFloat>;
using Float8E4M3 = Small<uint8_t, E4M3ToFloat>;
using Float8E5M2 = Small<uint8_t, E5M2ToFloat>;

template <typename Type>
double Element(const void* values, int64_t i) {
  typename Type::Stored bits;  // copied: any address will do
  std::memcpy(&bits, static_cast<const char*>(values) + i * static_cast<int64_t>(sizeof(bits)),
              sizeof(bits));
  return Type::Decode(bits);
}

template <typename Type>
inline constexpr bool kHasGrid = sizeof(typename Type::Stored) >= 4;

// A magnitude that is in the range of a format whose normal numbers begin at `normal`, and is no
// multiple of `step` below it, is none of its numbers.
bool IsBeside(double magnitude, double most, double normal, double step) {
  if (magnitude > most) return true;
  const double steps = magnitude / step;
  return magnitude < normal && steps != std::floor(steps);
}

template <typename Type>
void AddToGrid(double x, BlockStats& out) {
  uint64_t bits = std::bit_cast<uint64_t>(x) & 0xfffffffffffff;
  const double magnitude = std::fabs(x);
  out.mantissas |= bits;
  if ((bits & kBelowFp16) == 0) {
    out.off_fp16 = out.off_fp16 || IsBeside(magnitude, 65504, 0x1p-14, 0x1p-24);
  }
  if ((bits & kBelowBf16) == 0) {
    out.off_bf16 = out.off_bf16 || IsBeside(magnitude, kMostBf16, 0x1p-126, kLeastBf16);
  }
}

template <typename Type>
bool Stats(const void* values, int64_t count, double shift, BlockStats& out) {
  out = {};
  for (int64_t i = 0; i < count; ++i) {
    const double x = Element<Type>(values, i);
    if (!std::isfinite(x)) return false;
    const double magnitude = std::fabs(x);
    if (i == 0 || x < out.min) out.min = x;
    if (i == 0 || x > out.max) out.max = x;
    if (magnitude == 0) {
      ++out.zeros;
    } else {
      if (out.smallest == 0 || magnitude < out.smallest) out.smallest = magnitude;
      if (magnitude <= 0x1p-25) {
        ++out.below;
      } else if (magnitude < 2047 * 0x1p-25) {
        ++out.subnormal;
      }
    }
    out.above += magnitude >= 65520;
    out.near += magnitude > static_cast<double>(kNearMax);
    out.deviation += x - shift;
    out.squared += (x - shift) * (x - shift);
    if constexpr (kHasGrid<Type>) AddToGrid<Type>(x, out);
  }
  out.min += 0.0;  // of -0 this makes 0
  out.max += 0.0;
  return true;
}

template <typename Type>
bool AllFinite(const void* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(Element<Type>(values, i))) return false;
  }
  return true;
}

template <typename Type>
double Squares(const void* values, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double x = Element<Type>(values, i);
    sum += x * x;
  }
  return sum;
}

template <typename Type>
void Decode(const void* values, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(Element<Type>(values, i));
}

template <typename Type>
void Exponents(const void* values, int64_t count, uint8_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    const double x = Element<Type>(values, i);
    const auto field = static_cast<uint8_t>(std::bit_cast<uint32_t>(static_cast<float>(x)) >> 23);
    out[i] = field == 255 && std::isfinite(x) ? 254 : field;  // FP64 beyond FP32
  }
}

void CountBytes(const uint8_t* bytes, int64_t count, int64_t* counts) {
  for (int64_t i = 0; i < count; ++i) ++counts[bytes[i]];
}

constexpr Kernels kKernels = {
    1,
    {nullptr, Stats<Float32>, Stats<Float16>, Stats<Bfloat16>, Stats<Float64>, Stats<Float8E4M3>,
     Stats<Float8E5M2>},
    {nullptr, AllFinite<Float32>, AllFinite<Float16>, AllFinite<Bfloat16>, AllFinite<Float64>,
     AllFinite<Float8E4M3>, AllFinite<Float8E5M2>},
    {nullptr, Squares<Float32>, Squares<Float16>, Squares<Bfloat16>, Squares<Float64>,
     Squares<Float8E4M3>, Squares<Float8E5M2>},
    {nullptr, Decode<Float32>, Decode<Float16>, Decode<Bfloat16>, nullptr, Decode<Float8E4M3>,
     Decode<Float8E5M2>},
    {nullptr, Exponents<Float32>, Exponents<Float16>, Exponents<Bfloat16>, Exponents<Float64>,
     Exponents<Float8E4M3>, Exponents<Float8E5M2>},
    CountBytes,
};

}  // namespace

const Kernels& ScalarKernels() { return kKernels; }

}  // namespace mpnanny::internal
