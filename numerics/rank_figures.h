// What ranks of one training compare of a tensor, without sending it: a hash of its bits, its norm,
// and a sketch that is linear in its elements.
//
// The hash is the sum over all elements of a mix of the element's bits and place, modulo 2^64, so
// that parts may be read in any order: equal bits give equal hashes, and different ones do but for
// one case in 2^64. The sketch is the tensor's product with rows of signs that follow from the
// place alone: what is true of sums of tensors is true of sums of their sketches (Alon, Matias and
// Szegedy 1996), so that "this is the mean of those" is checked by a few numbers of each. Pure
// functions, safe from any thread.
#ifndef MPNANNY_NUMERICS_RANK_FIGURES_H_
#define MPNANNY_NUMERICS_RANK_FIGURES_H_

#include <array>
#include <cstdint>

#include "numerics/tensor_view.h"

namespace mpnanny {

inline constexpr int kSketchRows = 2;

struct RankFigures {
  uint64_t hash = 0;
  int64_t numel = 0, nonfinite = 0;
  double squares = 0;                           // of finite elements
  std::array<double, kSketchRows> sketch = {};  // of finite elements
};

// `first`: the place of the view's first element in the whole tensor that it is a part of, counted
// in C order. Of a view without memory (TensorView::known) numel alone.
RankFigures ComputeRankFigures(const TensorView& view, int64_t first = 0);

}  // namespace mpnanny

#endif  // MPNANNY_NUMERICS_RANK_FIGURES_H_
