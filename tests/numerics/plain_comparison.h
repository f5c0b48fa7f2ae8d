// What the tests of comparisons with a reference share: an independent plain loop over the
// elements, references of every kind, and the same elements in many layouts.
#ifndef MPNANNY_TESTS_NUMERICS_PLAIN_COMPARISON_H_
#define MPNANNY_TESTS_NUMERICS_PLAIN_COMPARISON_H_

#include <cstdint>
#include <random>
#include <vector>

#include "numerics/reference_error.h"
#include "tests/numerics/reference.h"

namespace mpnanny {

double LargestOf(DType dtype);  // finite; infinity where that is FP64's

// The header's sentences, one element after the other, sums in long double.
struct Plain {
  int64_t range = 0, undefined = 0, infinite = 0, reference_only = 0, nonzero = 0, flushed = 0,
          wrong_integers = 0, clipped = 0, finite = 0, whole = 0;
  long double squared_error = 0, squared_reference = 0, squared_flushed = 0;
  double max_error = 0, max_reference = 0, max_held = 0;
};
Plain Refer(DType dtype, const std::vector<double>& held, const std::vector<double>& reference);

// Of sums of what is not negative, which have no cancellation: the order of additions costs a few
// roundings. Squares that double cannot hold are none.
void ExpectSum(double got, long double expected, const char* what);

void ExpectEqual(const ReferenceError& got, const Plain& plain, size_t numel);
void ExpectSameBits(double got, double expected);
void ExpectSameBits(const ReferenceError& got, const ReferenceError& expected);

TensorView View(const std::vector<double>& values, const std::vector<int64_t>& shape);

// References as they are met: near the held value, far off, not finite, whole, tiny, too large.
std::vector<double> References(const std::vector<double>& held, std::mt19937& random);

struct Strided {
  int64_t offset;
  std::vector<int64_t> shape, strides;
};
// Of memory of 4 x 60 x 70: transposed, sliced, expanded, reversed, overlapping, without
// dimensions, in rows around the size of a block.
std::vector<Strided> Layouts();

// The elements of a layout in the order of their indices.
std::vector<double> Pick(const Strided& layout, const std::vector<double>& values);

// The same as they are stored, next to each other.
std::vector<char> Contiguous(DType dtype, const Strided& layout, const Stored& stored);

}  // namespace mpnanny

#endif  // MPNANNY_TESTS_NUMERICS_PLAIN_COMPARISON_H_
