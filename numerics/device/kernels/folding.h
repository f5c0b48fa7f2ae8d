// How the figures of threads become those of a block, and those of blocks the row's.
//
// Counts and extremes go by atomics on integers, which give the same in any order. Sums go through
// a tree of fixed shape. Each block leaves a Partial; the block of a row that ends last takes them
// together, in their order: one launch, and the same bits each time.
#ifndef MPNANNY_NUMERICS_DEVICE_KERNELS_FOLDING_H_
#define MPNANNY_NUMERICS_DEVICE_KERNELS_FOLDING_H_

#include "numerics/device/kernels/target.h"

namespace mpnanny::device {

// Numbers that are ordered as the values are of which these are the bits, -0 below 0; NaN left
// aside.
template <typename Bits>
MPN_INLINE Bits OrderOf(Bits bits) {
  const Bits sign = ~(~Bits{0} >> 1);
  return (bits & sign) != 0 ? ~bits : bits | sign;
}
template <typename Bits>
MPN_INLINE Bits BitsOfOrder(Bits order) {
  const Bits sign = ~(~Bits{0} >> 1);
  return (order & sign) != 0 ? order & ~sign : ~order;
}
// -0 becomes 0.
MPN_INLINE double ValueOfOrder(unsigned long long order) {
  const unsigned long long bits = BitsOfOrder(order);
  return (bits & ~(1ull << 63)) == 0 ? 0.0 : DoubleOf(bits);
}

template <int kCount>
MPN_INLINE void AddUp(double (&sums)[kCount][kThreads]) {
  MPN_ROLLED
  for (int half = kThreads / 2; half > 0; half /= 2) {
    MPN_EACH_THREAD(thread) {
      if (thread < half) {
        MPN_UNROLL
        for (int i = 0; i < kCount; ++i) sums[i][thread] += sums[i][thread + half];
      }
    }
  }
}

// What most threads have nothing of costs them nothing.
template <typename T>
MPN_INLINE void AddSome(T& sum, T value) {
  if (value != 0) AddTo(sum, value);
}

// Whether this block is the one of its row that takes the partials together. They are written
// before, and read after.
MPN_INLINE bool IsLast(Progress& progress, int blocks) {
  MPN_SHARED unsigned int before;
  MPN_EACH_THREAD(thread) {
    if (thread == 0) {
      Fence();  // for the whole block, which has met before this phase
      before = AddTo(progress.ended, 1u);
    }
  }
  const bool last = before + 1 == static_cast<unsigned int>(blocks);
  MPN_EACH_THREAD(thread) {
    Fence();
    if (thread == 0 && last) progress.ended = 0;
  }
  return last;
}

}  // namespace mpnanny::device

#endif  // MPNANNY_NUMERICS_DEVICE_KERNELS_FOLDING_H_
