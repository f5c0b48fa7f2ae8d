// `figures`: everything that ComputeStats() gives on a CPU, its histogram of exponents included.
#ifndef MPNANNY_NUMERICS_DEVICE_KERNELS_FIGURES_H_
#define MPNANNY_NUMERICS_DEVICE_KERNELS_FIGURES_H_

#include "numerics/device/kernels/extent.h"

namespace mpnanny::device {

// The counts of a Partial behind those of the extent.
inline constexpr int kZeros = 3, kBelow = 4, kSubnormal = 5, kAbove = 6, kNearMax = 7;

// Threads of one warp count together; its own bins keep it from waiting for the others.
inline constexpr int kWarp = 32;
inline constexpr int kExponents = 256;

struct FiguresMemory {
  FoldedExtent extent;
  unsigned long long counts[8];  // by the names above
  unsigned long long smallest;   // ~ of the least magnitude that is not 0; 0 if there is none
  double shift;                  // moments are taken about it
  bool again;                    // it was too far from the mean
  double sums[4][kThreads];
  unsigned int exponents[kThreads / kWarp][kExponents];
};

// A mean of some elements, all over the part: near enough to the mean of all for a shift.
template <typename Type>
MPN_INLINE void Sample(const Part& part, int thread, FiguresMemory& shared) {
  double sum = 0, count = 0;
  if (thread < part.count) {
    const int at = part.count <= kThreads
                       ? thread
                       : static_cast<int>(static_cast<long long>(thread) * part.count / kThreads);
    const typename Type::Bits bits = Type::At(part, at);
    if ((bits & Type::kMagnitude) < Type::kInfinity) {
      sum = Type::Value(bits);
      count = 1;
    }
  }
  shared.sums[0][thread] = sum;
  shared.sums[1][thread] = count;
}

template <typename Type>
MPN_INLINE void ReadFigures(const Part& part, int thread, FiguresMemory& shared) {
  using Bits = typename Type::Bits;
  unsigned int* const exponents = shared.exponents[thread / kWarp];
  const double shift = shared.shift;
  Extent<Type> extent;
  Bits smallest = ~Bits{0};
  unsigned int zeros = 0, flushed = 0, not_normal = 0, above = 0, near = 0;
  double deviation = 0, squared = 0;
  ForEachElement<Type>(part, thread, [&](Bits bits) {
    const Bits magnitude = bits & Type::kMagnitude;
    if (magnitude != 0) AddTo(exponents[Type::Exponent(magnitude)], 1u);
    if (!extent.Add(bits)) return;
    zeros += magnitude == 0 ? 1 : 0;
    flushed += magnitude <= Type::kFlushed ? 1 : 0;
    not_normal += magnitude < Type::kNormal ? 1 : 0;
    above += magnitude >= Type::kOverflow ? 1 : 0;
    near += magnitude > Type::kNear ? 1 : 0;
    smallest = magnitude - 1 < smallest ? magnitude - 1 : smallest;  // of 0: the largest
    const double difference = Type::Value(bits) - shift;
    deviation += difference;
    squared += difference * difference;
  });
  shared.extent.Take(extent);
  AddSome(shared.counts[kZeros], static_cast<unsigned long long>(zeros));
  AddSome(shared.counts[kBelow], static_cast<unsigned long long>(flushed - zeros));
  AddSome(shared.counts[kSubnormal], static_cast<unsigned long long>(not_normal - flushed));
  AddSome(shared.counts[kAbove], static_cast<unsigned long long>(above));
  AddSome(shared.counts[kNearMax], static_cast<unsigned long long>(near));
  if (smallest != ~Bits{0}) RaiseTo(shared.smallest, ~BitsOf(Type::Value(smallest + 1)));
  AddSome(exponents[0], zeros);
  shared.sums[0][thread] = deviation;
  shared.sums[1][thread] = squared;
}

// The moments about another shift.
template <typename Type>
MPN_INLINE void ReadMoments(const Part& part, int thread, FiguresMemory& shared) {
  const double shift = shared.shift;
  double deviation = 0, squared = 0;
  MPN_ROLLED
  for (int i = thread; i < part.count; i += kThreads) {
    const typename Type::Bits bits = Type::At(part, i);
    if ((bits & Type::kMagnitude) >= Type::kInfinity) continue;
    const double difference = Type::Value(bits) - shift;
    deviation += difference;
    squared += difference * difference;
  }
  shared.sums[0][thread] = deviation;
  shared.sums[1][thread] = squared;
}

MPN_INLINE bool IsFinite(double value) {
  return (BitsOf(value) & Wide::kMagnitude) < Wide::kInfinity;
}

// Adds the moments of b to those of a (Chan, Golub, LeVeque 1979): number, mean, sum of squared
// deviations, sum of squares.
MPN_INLINE void Merge(double (&a)[4], const double (&b)[4]) {
  if (b[0] == 0) return;
  if (a[0] == 0) {
    MPN_UNROLL
    for (int i = 0; i < 4; ++i) a[i] = b[i];
    return;
  }
  const double share = b[0] / (a[0] + b[0]), delta = b[1] - a[1];
  a[1] += delta * share;
  a[2] += b[2] + delta * delta * (a[0] * share);
  a[3] += b[3];
  a[0] += b[0];
}

MPN_INLINE void StartCounts(FiguresMemory& shared, int thread) {
  if (thread == 0) {
    shared.extent = {};
    shared.smallest = 0;
  }
  if (thread < 8) shared.counts[thread] = 0;
}

// What the block found, as a Partial; its exponents go to the row's own.
MPN_INLINE void LeaveFigures(const FiguresMemory& shared, int count, Partial& out) {
  shared.extent.Leave(out);
  for (int i = kZeros; i <= kNearMax; ++i)
    out.counts[i] = static_cast<unsigned int>(shared.counts[i]);
  out.keys[2] = shared.smallest;
  const double n = static_cast<double>(count - shared.extent.NotFinite());
  const double shift = shared.shift, deviation = shared.sums[0][0], squared = shared.sums[1][0];
  out.values[0] = n;
  const double about_mean = n > 0 ? squared - deviation * (deviation / n) : 0.0;
  out.values[1] = n > 0 ? shift + deviation / n : 0.0;
  out.values[2] = about_mean < 0 ? 0.0 : about_mean;
  out.values[3] = squared + shift * (2 * deviation) + shift * (shift * n);
}

MPN_INLINE void WriteFigures(const FiguresMemory& shared, long long elements, FiguresSlot& out) {
  const FoldedExtent& extent = shared.extent;
  out.elements = elements;
  out.nan = static_cast<long long>(extent.nan);
  out.posinf = static_cast<long long>(extent.posinf);
  out.neginf = static_cast<long long>(extent.neginf);
  out.zeros = static_cast<long long>(shared.counts[kZeros]);
  out.finite = elements - extent.NotFinite();
  out.below_fp16 = static_cast<long long>(shared.counts[kBelow]);
  out.subnormal_fp16 = static_cast<long long>(shared.counts[kSubnormal]);
  out.above_fp16 = static_cast<long long>(shared.counts[kAbove]);
  out.near_fp16_max = static_cast<long long>(shared.counts[kNearMax]);
  out.min = extent.Least();
  out.max = extent.Greatest();
  out.absmax = out.max > -out.min ? out.max : 0.0 - out.min;
  out.absmin = shared.smallest == 0 ? 0.0 : DoubleOf(~shared.smallest);
  out.mean = shared.sums[1][0];
  out.squared_deviation = shared.sums[2][0];
  out.squares = shared.sums[3][0];
}

// Whether the row is part of a CUDA graph that runs at a moment when nobody wants to know.
MPN_INLINE bool IsClosed(const Row& row) {
  return (row.options & kGated) != 0 && *reinterpret_cast<const long long*>(row.address[1]) == 0;
}

MPN_KERNEL(mpn_figures)(const Table table, FiguresSlot* slots, Scratch* scratch) {
  MPN_SHARED FiguresMemory shared;
  const Place place = FindPlace(table, BlockNumber());
  if (IsClosed(table.row[place.row])) return;
  const Part part = place.Of(table, 0);
  const bool wide = part.dtype == kFp64;
  Progress& progress = scratch->progress[place.row];
  MPN_EACH_THREAD(thread) {
    StartCounts(shared, thread);
    MPN_ROLLED
    for (int i = thread; i < kThreads / kWarp * kExponents; i += kThreads)
      shared.exponents[i / kExponents][i % kExponents] = 0;
    if (wide) {
      Sample<Wide>(part, thread, shared);
    } else {
      Sample<Narrow>(part, thread, shared);
    }
  }
  AddUp(shared.sums);
  MPN_EACH_THREAD(thread) {
    if (thread == 0) {
      const double mean = shared.sums[1][0] > 0 ? shared.sums[0][0] / shared.sums[1][0] : 0.0;
      shared.shift = IsFinite(mean) ? mean : 0.0;
    }
  }
  MPN_EACH_THREAD(thread) {
    if (wide) {
      ReadFigures<Wide>(part, thread, shared);
    } else {
      ReadFigures<Narrow>(part, thread, shared);
    }
  }
  AddUp(shared.sums);
  MPN_EACH_THREAD(thread) {
    if (thread == 0) {
      // Further off than three standard deviations: again, about the mean.
      const double n = static_cast<double>(part.count - shared.extent.NotFinite());
      const double deviation = shared.sums[0][0], mean = shared.shift + deviation / n;
      shared.again = n > 0 && deviation * (deviation / n) > 0.9 * shared.sums[1][0] &&
                     IsFinite(mean) && mean != shared.shift;
      if (shared.again) shared.shift = mean;
    }
  }
  if (shared.again) {
    MPN_EACH_THREAD(thread) {
      if (wide) {
        ReadMoments<Wide>(part, thread, shared);
      } else {
        ReadMoments<Narrow>(part, thread, shared);
      }
    }
    AddUp(shared.sums);
  }
  MPN_EACH_THREAD(thread) {
    unsigned long long count = 0;
    MPN_UNROLL
    for (int warp = 0; warp < kThreads / kWarp; ++warp) count += shared.exponents[warp][thread];
    AddSome(progress.exponents[thread], count);
    if (thread == 0) LeaveFigures(shared, part.count, scratch->partials[BlockNumber()]);
  }
  if (!IsLast(progress, place.blocks)) return;

  const Row& row = table.row[place.row];
  const Partial* const partials = scratch->partials + row.first_block;
  MPN_EACH_THREAD(thread) { StartCounts(shared, thread); }
  MPN_EACH_THREAD(thread) {
    double moments[4] = {};
    MPN_ROLLED
    for (int i = thread; i < place.blocks; i += kThreads) {
      const Partial& each = partials[i];
      shared.extent.Take(each);
      MPN_UNROLL
      for (int k = kZeros; k <= kNearMax; ++k)
        AddSome(shared.counts[k], static_cast<unsigned long long>(each.counts[k]));
      RaiseTo(shared.smallest, each.keys[2]);
      const double more[4] = {each.values[0], each.values[1], each.values[2], each.values[3]};
      Merge(moments, more);
    }
    MPN_UNROLL
    for (int i = 0; i < 4; ++i) shared.sums[i][thread] = moments[i];
  }
  MPN_ROLLED
  for (int half = kThreads / 2; half > 0; half /= 2) {
    MPN_EACH_THREAD(thread) {
      if (thread < half) {
        double moments[4], more[4];
        MPN_UNROLL
        for (int i = 0; i < 4; ++i) {
          moments[i] = shared.sums[i][thread];
          more[i] = shared.sums[i][thread + half];
        }
        Merge(moments, more);
        MPN_UNROLL
        for (int i = 0; i < 4; ++i) shared.sums[i][thread] = moments[i];
      }
    }
  }
  FiguresSlot& slot = slots[row.slot];
  MPN_EACH_THREAD(thread) {
    slot.exponents[thread] = static_cast<long long>(progress.exponents[thread]);
    progress.exponents[thread] = 0;
    if (thread == 0) WriteFigures(shared, row.elements, slot);
  }
}

}  // namespace mpnanny::device

#endif  // MPNANNY_NUMERICS_DEVICE_KERNELS_FIGURES_H_
