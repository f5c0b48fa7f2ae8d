// The inner loops over one block of memory, one table of them for each instruction set.
//
// Pure functions on at most kBlock elements that lie next to each other at any address; safe from
// any thread. Internal to numerics/: tensor_stats.cc walks tensors, cuts blocks and merges.
#ifndef MPNANNY_NUMERICS_KERNELS_H_
#define MPNANNY_NUMERICS_KERNELS_H_

#include <cstdint>

namespace mpnanny::internal {

inline constexpr int64_t kBlock = 4096;  // 16 KB of FP32: stays in the first cache
inline constexpr int kKernelTypes = 7;   // as kDTypes

// Statistics of a block without NaN and infinities. `smallest`: least magnitude that is not zero,
// 0 if there is none. A zero among min and max is +0. Sums are about the shift that was given.
struct BlockStats {
  int64_t zeros = 0;
  int64_t below = 0, subnormal = 0, above = 0, near = 0;  // against FP16, as in TensorStats
  double min = 0, max = 0, smallest = 0;
  double deviation = 0;  // sum of (x - shift)
  double squared = 0;    // sum of (x - shift)^2
  // Of FP32 and FP64, 0 and false of others: bits that are set in mantissas, in FP64's places (all
  // where the block is on a grid), and whether an element is beside the range of the format whose
  // mantissas have room for them.
  uint64_t mantissas = 0;
  bool off_fp16 = false, off_bf16 = false;
};

// Arrays are indexed by DType; the entry of kUnknown is null. Vector kernels take whole vectors
// only: `count` is a multiple of `multiple`, and what is left over goes to the scalar table.
struct Kernels {
  int64_t multiple;
  // False if an element is NaN or infinite; `out` then holds nothing of use.
  bool (*stats[kKernelTypes])(const void* values, int64_t count, double shift, BlockStats& out);
  bool (*all_finite[kKernelTypes])(const void* values, int64_t count);
  double (*squares[kKernelTypes])(const void* values, int64_t count);
  void (*decode[kKernelTypes])(const void* values, int64_t count, float* out);  // none of FP64
  // The FP32 exponent field of each element.
  void (*exponents[kKernelTypes])(const void* values, int64_t count, uint8_t* out);
  // Adds to `counts` how often each byte occurs; any `count` up to kBlock.
  void (*count_bytes)(const uint8_t* bytes, int64_t count, int64_t* counts);
};

// FP32 bit patterns of magnitudes; comparing them as integers compares the magnitudes.
inline constexpr int32_t kMagnitude = 0x7fffffff;
inline constexpr int32_t kInfinity = 0x7f800000;
inline constexpr int32_t kFlushed = 0x33000000;     // 2^-25, the largest that FP16 rounds to 0
inline constexpr int32_t kNormal = 0x387fe000;      // 2047 x 2^-25, the smallest it rounds to 2^-14
inline constexpr int32_t kOverflow = 0x477ff000;    // 65520, the smallest it rounds to infinity
inline constexpr int32_t kNormalFp16 = 0x38800000;  // 2^-14, the smallest normal number of FP16
inline constexpr float kNearMax = 0.9f * 65504.0f;
inline constexpr int32_t kNear = 0x47664999;

// The places of an FP64 mantissa that FP16 and BF16 have no bit for.
inline constexpr uint64_t kBelowFp16 = (uint64_t{1} << 42) - 1;
inline constexpr uint64_t kBelowBf16 = (uint64_t{1} << 45) - 1;
inline constexpr double kMostBf16 = 0x1.fep127, kLeastBf16 = 0x1p-133;
inline constexpr int kFp32To64 = 29;  // from the places of an FP32 mantissa to those of FP64

const Kernels& ScalarKernels();
// Null where the build has none; whether the CPU has them is another question.
const Kernels* NeonKernels();
const Kernels* Avx2Kernels();
const Kernels* Avx512Kernels();

// Those of CurrentSimdLevel().
const Kernels& CurrentKernels();

}  // namespace mpnanny::internal

#endif  // MPNANNY_NUMERICS_KERNELS_H_
