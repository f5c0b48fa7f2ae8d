// What the tests of tensor statistics share: an independent reference in long double, data of every
// kind and dtype, and the instruction sets one after the other.
#ifndef MPNANNY_TESTS_NUMERICS_REFERENCE_H_
#define MPNANNY_TESTS_NUMERICS_REFERENCE_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "numerics/simd.h"
#include "numerics/tensor_stats.h"

namespace mpnanny {

// Two passes in long double over decoded values, formats judged by RoundTo.
struct Reference {
  int64_t nan = 0, posinf = 0, neginf = 0, zeros = 0, finite = 0, below = 0, subnormal = 0,
          above = 0, near = 0;
  bool on_fp16 = true, on_bf16 = true;  // each finite value is its own rounding
  long double min = 0, max = 0, absmax = 0, absmin = 0, mean = 0, deviation = 0, squares = 0;
};
Reference Refer(const std::vector<double>& values);

void ExpectEqual(const TensorStats& got, const Reference& ref);

// Counts and extremes, bit for bit.
void ExpectSameCounts(const TensorStats& got, const TensorStats& expected);

// Everything that is computed of a view, against the reference for its values.
void ExpectAll(const TensorView& view, const std::vector<double>& values);

// Data of every kind that a tensor meets; `kind` is below kKinds.
std::vector<float> Sample(int kind, size_t size, std::mt19937& random);
inline constexpr int kKinds = 12;

inline constexpr DType kAllDTypes[] = {DType::kFloat32, DType::kFloat16,    DType::kBFloat16,
                                       DType::kFloat64, DType::kFloat8E4M3, DType::kFloat8E5M2};

// The values stored as `dtype` (cut off, not rounded: any value will do), and what is stored.
struct Stored {
  std::vector<char> memory;
  std::vector<double> values;
};
Stored Store(DType dtype, const std::vector<float>& values);

// Decoded by the definition of the format, bit by bit.
double Decode(DType dtype, const char* element);

// Runs `body` with each SimdLevel that the machine has; the choice is what it was afterwards.
template <typename Body>
void ForEachSimdLevel(Body body) {
  const SimdLevel before = CurrentSimdLevel();
  for (const SimdLevel level : AvailableSimdLevels()) {
    UseSimdLevel(level);
    body(std::string(SimdLevelName(level)));
  }
  UseSimdLevel(before);
}

}  // namespace mpnanny

#endif  // MPNANNY_TESTS_NUMERICS_REFERENCE_H_
