// A loop compiled for several instruction sets; the loader takes the best that the processor has.
// Sums in such a loop go by lanes, so that the order of additions, and with it every bit of the
// result, is the same everywhere. (The build turns contraction to fused multiply-add off: it would
// make them differ.) Internal to numerics/.
#ifndef MPNANNY_NUMERICS_CLONES_H_
#define MPNANNY_NUMERICS_CLONES_H_

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MPNANNY_CLONES __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define MPNANNY_CLONES
#endif

#endif  // MPNANNY_NUMERICS_CLONES_H_
