// Statistics of a tensor in one pass over its memory, without a copy of it.
//
// Pure functions on borrowed memory, which must stay readable and unchanged for the call; no state,
// safe from any thread. The memory may lie at any address. Sums are kept in double and moments
// about a shift (the mean of what came just before), so that a mean of 10,000 with a spread of
// 0.001 gives the right standard deviation and 1e30 in FP32 does not overflow.
//
// How exact: counts and extremes are. Up to ten million elements `squares`, `squared_deviation` and
// SumOfSquares() are within 1e-11 of the true sum, relative to it, and `mean` within 1e-11 of the
// largest magnitude; beyond that the bounds grow with the number of elements. The rounding differs
// from one SimdLevel to another within these bounds, and not from call to call. Where a squared
// deviation is beyond double (FP64 elements beyond 1e154) the sums are infinite or NaN. Partial
// results merge exactly up to rounding (Chan, Golub, LeVeque 1979: pairwise update of mean and
// squared deviations).
#ifndef MPNANNY_NUMERICS_TENSOR_STATS_H_
#define MPNANNY_NUMERICS_TENSOR_STATS_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "numerics/tensor_view.h"

namespace mpnanny {

// min … l2 are over finite elements and meaningless while `finite` is 0. Limits of FP16 are those
// of rounding to nearest: 2^-25 still becomes 0, 65519.996 still becomes 65504, 65520 does not fit.
struct TensorStats {
  int64_t numel = 0, nan = 0, posinf = 0, neginf = 0, zeros = 0;
  int64_t finite = 0;  // elements that are neither NaN nor infinite
  double min = 0, max = 0;
  double absmax = 0;  // largest magnitude
  double absmin = 0;  // smallest non-zero magnitude; 0 where every finite element is 0
  double mean = 0;
  double squared_deviation = 0;  // sum of (x - mean)^2
  double squares = 0;            // sum of x^2
  int64_t below_fp16 = 0;        // not zero, zero in FP16
  int64_t subnormal_fp16 = 0;    // subnormal in FP16
  int64_t above_fp16 = 0;        // finite, not finite in FP16
  int64_t near_fp16_max = 0;     // finite and above 0.9 x 65504, `above_fp16` included
  // Not everything was read: of nan, posinf and neginf only whether there are any, and of the other
  // figures the extremes, or `squares` alone. Never of what ComputeStats() reads from memory.
  bool partial = false;
  // What GridOf() answers from: bits that are set in mantissas of finite elements, in FP64's
  // places (all of them where a format has them all), and elements that FP16 or BF16 has no number
  // for although their mantissas would fit (of FP16 among the subnormals; above its range
  // above_fp16 tells).
  uint64_t mantissas = 0;
  bool off_fp16 = false, off_bf16 = false;
  bool grid_unknown = false;  // not FP32 or FP64, or not read from memory

  bool on_fp16() const;  // every finite element is a number of FP16: its own rounding. Exact
  bool on_bf16() const;
  int64_t nonfinite() const { return nan + posinf + neginf; }
  double std() const;  // of the population: divided by the count, 0 for one element
  double rms() const;
  double l2() const;
};

// Which 16-bit format holds all finite values of an FP32 or FP64 tensor as they are. Trivial: one
// does, and that says nothing, since these values would be so without ever having been 16 bits
// wide: constants, powers of two, FP8's numbers, whole numbers, steps of a fixed width, a handful.
enum class Grid { kUnknown, kNone, kTrivial, kBf16, kFp16 };
std::string_view GridName(Grid grid);  // "unknown", "none", "trivial", "bf16", "fp16"
Grid GridOf(const TensorStats& stats);

// `exponents`, if there is one, is set to what CountExponents() gives: one reading of the memory
// serves both.
TensorStats ComputeStats(const TensorView& view, ExponentHistogram* exponents = nullptr);

// `into` becomes the statistics of both parts together.
void Merge(TensorStats& into, const TensorStats& part);

// The statistics of the same elements times `factor` (finite, not 0), as far as they are figures;
// the counts against FP16 stay those of the elements as they were held.
TensorStats Scaled(const TensorStats& stats, double factor);

// True if an element is NaN or infinite. The test of every step: several times faster than
// ComputeStats.
bool HasNonFinite(const TensorView& view);

// Sum of squares in double; NaN or infinite exactly if an element is (FP64 beyond 1e154 overflows
// to infinite too).
double SumOfSquares(const TensorView& view);

// Of a view that is `known` all 0.
ExponentHistogram CountExponents(const TensorView& view);

}  // namespace mpnanny

#endif  // MPNANNY_NUMERICS_TENSOR_STATS_H_
