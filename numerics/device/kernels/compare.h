// `compare`: held values against a reference, as CompareWithReference() does it.
//
// Two launches of one table. The second counts which of the flushed elements matter, which needs
// the root mean square of the whole reference, and puts references right; blocks of rows that want
// neither end at once.
#ifndef MPNANNY_NUMERICS_DEVICE_KERNELS_COMPARE_H_
#define MPNANNY_NUMERICS_DEVICE_KERNELS_COMPARE_H_

#include "numerics/device/kernels/elements.h"
#include "numerics/device/kernels/folding.h"

namespace mpnanny::device {

// The largest finite number of a format; FP64 has none beyond which a reference could lie.
MPN_INLINE unsigned long long LargestOf(int dtype) {
  switch (dtype) {
    case kFp32:
      return BitsOf(0x1.fffffep127);
    case kFp16:
      return BitsOf(65504.0);
    case kBf16:
      return BitsOf(0x1.fep127);
    case kE4M3:
      return BitsOf(448.0);
    case kE5M2:
      return BitsOf(57344.0);
    default:
      return Wide::kInfinity;
  }
}
// The least positive one.
MPN_INLINE double SmallestOf(int dtype) {
  switch (dtype) {
    case kFp32:
      return 0x1p-149;
    case kFp16:
      return 0x1p-24;
    case kBf16:
      return 0x1p-133;
    case kE4M3:
      return 0x1p-9;
    case kE5M2:
      return 0x1p-16;
    default:
      return 0x1p-1074;
  }
}

// Of the bits of a magnitude. No addition: FP64 is slow on many GPUs.
MPN_INLINE bool IsWhole(unsigned long long magnitude) {
  const int exponent = static_cast<int>(magnitude >> 52);
  if (exponent >= 1075) return true;
  return exponent < 1023 ? magnitude == 0 : magnitude << (exponent - 1011) == 0;
}

// What becomes of sums that double cannot hold: squares of elements times 2^exponent.
MPN_INLINE int ScaleOf(unsigned long long most) {
  int exponent = static_cast<int>(most >> 52) - 1023;
  if (exponent < -1022) exponent = -1022;
  return 480 - exponent;
}
MPN_INLINE double PowerOfTwo(int exponent) {  // of a normal number
  return DoubleOf(static_cast<unsigned long long>(exponent + 1023) << 52);
}
MPN_INLINE double TimesPower(double value, int exponent) {
  const int half = exponent / 2;
  return value * PowerOfTwo(half) * PowerOfTwo(exponent - half);
}

inline constexpr int kErrorSum = 0, kReferenceSum = 1, kFlushedSum = 2, kSums = 3;
inline constexpr int kRange = 0, kUndefined = 1, kInfinite = 2, kReferenceOnly = 3, kNonzero = 4,
                     kFlushedCount = 5, kWrong = 6, kClipped = 7, kWhole = 8, kCounts = 9;
// Bits of magnitudes. The last is of references whose held value is not finite.
inline constexpr int kMostError = 0, kMostReference = 1, kMostHeld = 2, kMostAlone = 3, kMosts = 4;

struct CompareMemory {
  unsigned long long counts[kCounts], most[kMosts];
  double sums[kSums][kThreads];
  int scale;
};

// One element after the other, by the bits of FP64.
struct Compared {
  unsigned long long largest;
  unsigned int counts[kCounts] = {};
  unsigned long long most[kMosts] = {};
  double sums[kSums] = {};

  MPN_INLINE void Raise(int which, unsigned long long magnitude) {
    if (magnitude > most[which]) most[which] = magnitude;
  }
  MPN_INLINE void Add(unsigned long long held, unsigned long long reference) {
    const unsigned long long own = held & Wide::kMagnitude, wanted = reference & Wide::kMagnitude;
    if (own >= Wide::kInfinity || wanted >= Wide::kInfinity) return AddNotFinite(own, wanted);
    const double h = DoubleOf(held), r = DoubleOf(reference);
    const double difference = h - r;
    const unsigned long long error = BitsOf(difference) & Wide::kMagnitude;
    sums[kErrorSum] += difference * difference;
    sums[kReferenceSum] += r * r;
    if (wanted != 0) {
      ++counts[kNonzero];
      if (own == 0) {
        ++counts[kFlushedCount];
        sums[kFlushedSum] += r * r;
      }
    }
    if (IsWhole(wanted)) {
      ++counts[kWhole];
      counts[kWrong] += error != 0 ? 1 : 0;
    }
    counts[kClipped] += own == largest && wanted > largest ? 1 : 0;
    Raise(kMostError, error);
    Raise(kMostReference, wanted);
    Raise(kMostHeld, own);
  }
  MPN_INLINE void AddNotFinite(unsigned long long own, unsigned long long wanted) {
    if (wanted < Wide::kInfinity) {
      ++counts[kRange];
      counts[kNonzero] += wanted != 0 ? 1 : 0;
      Raise(kMostAlone, wanted);
    } else if (own < Wide::kInfinity) {
      ++counts[kReferenceOnly];
    } else if (wanted > Wide::kInfinity) {
      ++counts[kUndefined];
    } else {
      ++counts[kInfinite];
    }
  }
};

// Calls `visit(held, reference)`, by the bits of FP64.
template <typename Visit>
MPN_INLINE void ForEachPair(const Part& held, const Part& reference, int thread, Visit visit) {
  ForEachPack(
      held.count, Wide::kPack, held.aligned && reference.aligned, thread,
      [&](int first) {
        unsigned long long h[Wide::kPack], r[Wide::kPack];
        Wide::Read(held, first, h);
        Wide::Read(reference, first, r);
        MPN_UNROLL
        for (int i = 0; i < Wide::kPack; ++i) visit(h[i], r[i]);
      },
      [&](int i) { visit(Wide::At(held, i), Wide::At(reference, i)); });
}

// The sums once more, of elements scaled by 2^shared.scale.
MPN_INLINE void ReadScaled(const Part& held, const Part& reference, int thread,
                           CompareMemory& shared) {
  const double scale = PowerOfTwo(shared.scale);
  double sums[kSums] = {};
  MPN_ROLLED
  for (int i = thread; i < held.count; i += kThreads) {
    const unsigned long long h = Wide::At(held, i), r = Wide::At(reference, i);
    const unsigned long long own = h & Wide::kMagnitude, wanted = r & Wide::kMagnitude;
    if (own >= Wide::kInfinity || wanted >= Wide::kInfinity) continue;
    const double expected = DoubleOf(r) * scale, error = DoubleOf(h) * scale - expected;
    sums[kErrorSum] += error * error;
    sums[kReferenceSum] += expected * expected;
    if (wanted != 0 && own == 0) sums[kFlushedSum] += expected * expected;
  }
  MPN_UNROLL
  for (int i = 0; i < kSums; ++i) shared.sums[i][thread] = sums[i];
}

// Whether a double holds the sums.
MPN_INLINE bool Holds(const CompareMemory& shared) {
  const double sum = shared.sums[kErrorSum][0] + shared.sums[kReferenceSum][0];
  return (BitsOf(sum) & Wide::kMagnitude) < Wide::kInfinity;
}

MPN_INLINE unsigned long long MostOf(const CompareMemory& shared) {
  const unsigned long long reference = shared.most[kMostReference], held = shared.most[kMostHeld];
  return reference > held ? reference : held;
}

MPN_INLINE void StartCompare(CompareMemory& shared, int thread) {
  if (thread < kCounts) shared.counts[thread] = 0;
  if (thread < kMosts) shared.most[thread] = 0;
  if (thread == 0) shared.scale = 0;
}

// The sums of the blocks of a row, all scaled as `shared` says.
MPN_INLINE void TakeSums(const Partial* partials, int blocks, int thread, CompareMemory& shared) {
  double sums[kSums] = {};
  MPN_ROLLED
  for (int i = thread; i < blocks; i += kThreads) {
    const int more = shared.scale - static_cast<int>(partials[i].counts[kCounts]);
    MPN_UNROLL
    for (int k = 0; k < kSums; ++k) {
      const double own = partials[i].values[k];
      sums[k] += more == 0 ? own : TimesPower(TimesPower(own, more), more);
    }
  }
  MPN_UNROLL
  for (int k = 0; k < kSums; ++k) shared.sums[k][thread] = sums[k];
}

MPN_INLINE void WriteCompared(const CompareMemory& shared, long long elements, CompareSlot& out) {
  const unsigned long long* const counts = shared.counts;
  const auto count = [&](int which) { return static_cast<long long>(counts[which]); };
  const long long finite =
      elements - count(kRange) - count(kUndefined) - count(kInfinite) - count(kReferenceOnly);
  const unsigned long long alone = shared.most[kMostAlone], both = shared.most[kMostReference];
  out.elements = elements;
  out.range = count(kRange);
  out.undefined = count(kUndefined);
  out.infinite = count(kInfinite);
  out.reference_only = count(kReferenceOnly);
  out.nonzero = count(kNonzero);
  out.flushed = count(kFlushedCount);
  out.wrong_integers = count(kWrong);
  out.clipped = count(kClipped);
  out.integers = finite > 0 && count(kWhole) == finite ? 1 : 0;
  out.squared_error = shared.sums[kErrorSum][0];
  out.squared_reference = shared.sums[kReferenceSum][0];
  out.squared_flushed = shared.sums[kFlushedSum][0];
  out.max_error = DoubleOf(shared.most[kMostError]);
  out.max_reference = DoubleOf(alone > both ? alone : both);
  out.max_held = DoubleOf(shared.most[kMostHeld]);
  out.flushed_that_matter = out.flushed_in_range = out.flushed_that_matter_in_range = 0;
}

MPN_KERNEL(mpn_compare)(const Table table, CompareSlot* slots, Scratch* scratch) {
  MPN_SHARED CompareMemory shared;
  const Place place = FindPlace(table, BlockNumber());
  const Part held = place.Of(table, 0), reference = place.Of(table, 1);
  MPN_EACH_THREAD(thread) { StartCompare(shared, thread); }
  MPN_EACH_THREAD(thread) {
    Compared compared{LargestOf(held.dtype)};
    ForEachPair(held, reference, thread,
                [&](unsigned long long h, unsigned long long r) { compared.Add(h, r); });
    MPN_UNROLL
    for (int i = 0; i < kCounts; ++i)
      AddSome(shared.counts[i], static_cast<unsigned long long>(compared.counts[i]));
    MPN_UNROLL
    for (int i = 0; i < kMosts; ++i) {
      if (compared.most[i] != 0) RaiseTo(shared.most[i], compared.most[i]);
    }
    MPN_UNROLL
    for (int i = 0; i < kSums; ++i) shared.sums[i][thread] = compared.sums[i];
  }
  AddUp(shared.sums);
  if (!Holds(shared)) {
    MPN_EACH_THREAD(thread) {
      if (thread == 0) shared.scale = ScaleOf(MostOf(shared));
    }
    MPN_EACH_THREAD(thread) { ReadScaled(held, reference, thread, shared); }
    AddUp(shared.sums);
  }
  MPN_EACH_THREAD(thread) {
    if (thread == 0) {
      Partial& own = scratch->partials[BlockNumber()];
      for (int i = 0; i < kCounts; ++i) own.counts[i] = static_cast<unsigned int>(shared.counts[i]);
      own.counts[kCounts] = static_cast<unsigned int>(shared.scale);
      for (int i = 0; i < kMosts; ++i) own.keys[i] = shared.most[i];
      for (int i = 0; i < kSums; ++i) own.values[i] = shared.sums[i][0];
    }
  }
  if (!IsLast(scratch->progress[place.row], place.blocks)) return;

  const Row& row = table.row[place.row];
  const Partial* const partials = scratch->partials + row.first_block;
  MPN_SHARED unsigned int scaled;
  MPN_EACH_THREAD(thread) {
    StartCompare(shared, thread);
    if (thread == 0) scaled = 0;
  }
  MPN_EACH_THREAD(thread) {
    MPN_ROLLED
    for (int i = thread; i < place.blocks; i += kThreads) {
      MPN_UNROLL
      for (int k = 0; k < kCounts; ++k)
        AddSome(shared.counts[k], static_cast<unsigned long long>(partials[i].counts[k]));
      MPN_UNROLL
      for (int k = 0; k < kMosts; ++k) RaiseTo(shared.most[k], partials[i].keys[k]);
      AddSome(scaled, partials[i].counts[kCounts] != 0 ? 1u : 0u);
    }
  }
  if (scaled == 0) {
    MPN_EACH_THREAD(thread) { TakeSums(partials, place.blocks, thread, shared); }
    AddUp(shared.sums);
  }
  if (scaled != 0 || !Holds(shared)) {
    MPN_EACH_THREAD(thread) {
      if (thread == 0) shared.scale = ScaleOf(MostOf(shared));
    }
    MPN_EACH_THREAD(thread) { TakeSums(partials, place.blocks, thread, shared); }
    AddUp(shared.sums);
  }
  MPN_EACH_THREAD(thread) {
    if (thread == 0) WriteCompared(shared, row.elements, slots[row.slot]);
  }
}

// From numerics/reference_error.h.
inline constexpr double kMattersShare = 1e-2, kManyFlushedShare = 0.3, kMuchFlushedShare = 0.5;

MPN_INLINE bool CountsFlushed(const CompareSlot& found) {
  if (found.flushed == 0) return false;
  return static_cast<double>(found.flushed) >
             kManyFlushedShare * static_cast<double>(found.nonzero) ||
         found.squared_flushed > kMuchFlushedShare * found.squared_error;
}

// Whether the reference alone is not finite somewhere: then what is held becomes the reference.
MPN_INLINE bool Restarts(const Row& row, const CompareSlot& found) {
  return (row.options & kRestarts) != 0 && found.reference_only > 0 &&
         found.range + found.undefined + found.infinite == 0;
}

MPN_KERNEL(mpn_compare_flushed)(const Table table, CompareSlot* slots, Scratch* /*scratch*/) {
  MPN_SHARED unsigned int counts[3];
  const Place place = FindPlace(table, BlockNumber());
  const Row& row = table.row[place.row];
  CompareSlot& found = slots[row.slot];
  const bool counting = CountsFlushed(found), restarts = Restarts(row, found);
  if (!counting && !restarts) return;
  const Part held = place.Of(table, 0), reference = place.Of(table, 1);
  const double matters =
      kMattersShare * sqrt(found.squared_reference / static_cast<double>(found.elements));
  const double smallest = SmallestOf(held.dtype);
  MPN_EACH_THREAD(thread) {
    if (thread < 3) counts[thread] = 0;
  }
  MPN_EACH_THREAD(thread) {
    unsigned int that_matter = 0, in_range = 0, both = 0;
    MPN_ROLLED
    for (int i = thread; i < held.count; i += kThreads) {
      const unsigned long long h = Wide::At(held, i), r = Wide::At(reference, i);
      const unsigned long long wanted = r & Wide::kMagnitude;
      if ((h & Wide::kMagnitude) == 0 && wanted != 0 && wanted < Wide::kInfinity) {
        const double magnitude = DoubleOf(wanted);
        that_matter += magnitude >= matters ? 1 : 0;
        in_range += magnitude >= smallest ? 1 : 0;
        both += magnitude >= matters && magnitude >= smallest ? 1 : 0;
      }
      if (!restarts) continue;
      if (reference.dtype == kFp64) {
        Store(reference.at + static_cast<long long>(i) * 8, h);
      } else if (reference.dtype == kFp32) {
        Store(reference.at + static_cast<long long>(i) * 4,
              BitsOf(static_cast<float>(DoubleOf(h))));
      }
    }
    if (counting) {
      AddSome(counts[0], that_matter);
      AddSome(counts[1], in_range);
      AddSome(counts[2], both);
    }
  }
  MPN_EACH_THREAD(thread) {
    if (thread == 0) {
      AddSome(found.flushed_that_matter, static_cast<unsigned long long>(counts[0]));
      AddSome(found.flushed_in_range, static_cast<unsigned long long>(counts[1]));
      AddSome(found.flushed_that_matter_in_range, static_cast<unsigned long long>(counts[2]));
    }
  }
}

}  // namespace mpnanny::device

#endif  // MPNANNY_NUMERICS_DEVICE_KERNELS_COMPARE_H_
