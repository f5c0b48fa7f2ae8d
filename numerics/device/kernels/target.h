// The few things in which a GPU's compiler differs from any other, so that the kernels are one text
// for both: tests compile it as plain C++ against tests/numerics/device_emulation.h, which defines
// the same names.
//
// Threads meet in phases: MPN_EACH_THREAD runs its body once for each thread of the block and ends
// with a barrier. A body must not leave by `return` or `break`, and what it hands to a later phase
// goes through shared memory; what stands outside of phases is the same for all threads.
#ifndef MPNANNY_NUMERICS_DEVICE_KERNELS_TARGET_H_
#define MPNANNY_NUMERICS_DEVICE_KERNELS_TARGET_H_

#include "numerics/device/table.h"

#ifdef __CUDACC__

#define MPN_KERNEL(name) extern "C" __global__ void __launch_bounds__(256) name
#define MPN_INLINE __device__ __forceinline__
#define MPN_SHARED __shared__
#define MPN_UNROLL _Pragma("unroll")
#define MPN_ROLLED \
  _Pragma("unroll 1")  // what runs seldom is kept short: NVRTC compiles it in the training
#define MPN_EACH_THREAD(thread)                                                   \
  for (int thread = static_cast<int>(threadIdx.x), mpn_waits = 1; mpn_waits != 0; \
       __syncthreads(), mpn_waits = 0)

namespace mpnanny::device {

MPN_INLINE int BlockNumber() { return static_cast<int>(blockIdx.x); }
// What this thread has written is seen by whoever sees what it writes from here on.
MPN_INLINE void Fence() { __threadfence(); }

MPN_INLINE float FloatOf(unsigned int bits) { return __uint_as_float(bits); }
MPN_INLINE unsigned int BitsOf(float value) { return __float_as_uint(value); }
MPN_INLINE double DoubleOf(unsigned long long bits) {
  return __longlong_as_double(static_cast<long long>(bits));
}
MPN_INLINE unsigned long long BitsOf(double value) {
  return static_cast<unsigned long long>(__double_as_longlong(value));
}

// Atomic, on shared or on device memory.
template <typename T>
MPN_INLINE T AddTo(T& sum, T value) {
  return atomicAdd(&sum, value);
}
template <typename T>
MPN_INLINE void RaiseTo(T& most, T value) {
  atomicMax(&most, value);
}

// `at` is aligned to T.
template <typename T>
MPN_INLINE T Load(const unsigned char* at) {
  return *reinterpret_cast<const T*>(at);
}
template <typename T>
MPN_INLINE void Store(unsigned char* at, T value) {
  *reinterpret_cast<T*>(at) = value;
}

}  // namespace mpnanny::device

#endif  // __CUDACC__

#endif  // MPNANNY_NUMERICS_DEVICE_KERNELS_TARGET_H_
