// The loops of the vector kernels, written once over the few operations in which the instruction
// sets differ.
//
// Each kernels_<set>.cc instantiates VectorKernels<Ops> with a class `Ops` that has internal
// linkage and is compiled with that set's flags; so every function here must be a template over Ops
// (a plain inline function could be shared with code for machines that lack the set). Ops has
// kLanes 32-bit lanes in an I, and a D of half as many doubles.
#ifndef MPNANNY_NUMERICS_KERNEL_BODY_H_
#define MPNANNY_NUMERICS_KERNEL_BODY_H_

#include "numerics/kernel_loads.h"
#include "numerics/kernels.h"

namespace mpnanny::internal {

template <typename Ops, int kCount>
int64_t SumLanes(const int32_t (&lanes)[kCount]) {
  int64_t sum = 0;
  for (int i = 0; i < kCount; ++i) sum += lanes[i];
  return sum;
}
template <typename Ops>
int64_t SumOf(typename Ops::I vector) {
  int32_t lanes[Ops::kLanes];
  Ops::Store(lanes, vector);
  return SumLanes<Ops>(lanes);
}
template <typename Ops>
double SumOfDoubles(typename Ops::D vector) {
  double lanes[Ops::kLanes / 2];
  Ops::StoreDoubles(lanes, vector);
  double sum = 0;
  for (int i = 0; i < Ops::kLanes / 2; ++i) sum += lanes[i];
  return sum;
}
// FP32 bits of a magnitude as a double, also where the processor is set to read subnormals as 0.
template <typename Ops>
double MagnitudeOf(int32_t bits) {
  if (bits < 0x00800000) return bits * 0x1p-149;
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return static_cast<double>(value);
}

// The mantissas of FP32 bits together, in FP64's places.
template <typename Ops>
uint64_t MantissasF32(typename Ops::I bits) {
  int32_t lanes[Ops::kLanes];
  Ops::Store(lanes, bits);
  uint32_t all = 0;
  for (int32_t lane : lanes) all |= static_cast<uint32_t>(lane);
  return static_cast<uint64_t>(all & 0x7fffff) << kFp32To64;
}
template <typename Ops>
uint64_t MantissasF64(typename Ops::I bits) {
  uint64_t lanes[Ops::kLanes / 2];
  Ops::Store(lanes, bits);
  uint64_t all = 0;
  for (uint64_t lane : lanes) all |= lane;
  return all & 0xfffffffffffff;
}

// Whether one of these FP32 is below FP16's normal numbers and no multiple of its smallest one,
// 2^-24. For blocks whose mantissas would fit.
template <typename Ops>
bool IsBetweenSubnormals(const char* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    __builtin_memcpy(&bits, from + i * 4, 4);
    bits &= static_cast<uint32_t>(kMagnitude);
    if (bits == 0 || bits >= static_cast<uint32_t>(kNormalFp16)) continue;
    const uint32_t exponent = bits >> 23, missing = 126 - exponent;  // low bits that must be 0
    const uint32_t significand = (bits & 0x7fffff) | 0x800000;
    if (missing > 23 || (significand & ((1u << missing) - 1)) != 0) return true;
  }
  return false;
}

// Whether one of these FP64, all of whose mantissas fit FP16 or BF16, lies beside the numbers of
// `most` at most whose steps near 0 are `step` wide: beyond, or between two of them.
template <typename Ops>
bool IsBeside(const char* from, int64_t count, double most, double step) {
  for (int64_t i = 0; i < count; ++i) {
    double x;
    __builtin_memcpy(&x, from + i * 8, 8);
    const double magnitude = __builtin_fabs(x);
    if (magnitude > most) return true;
    const double steps = magnitude / step;  // a power of two
    if (steps < 0x1p30 && steps != static_cast<double>(static_cast<int64_t>(steps))) return true;
  }
  return false;
}

// Extremes on integers, which no setting of the processor for subnormals touches. Of the bits taken
// as signed numbers the largest is the greatest value if any is positive; taken as unsigned ones,
// the largest is the least value if any is negative. What lies on the other side of zero, where
// there is nothing on this one, is the smallest magnitude or zero.
template <typename Ops, typename Loader, bool kGrid>
bool StatsOf(const void* values, int64_t count, double shift_value, BlockStats& out) {
  using I = typename Ops::I;
  using D = typename Ops::D;
  const char* const begin = static_cast<const char*>(values);
  const I magnitude_mask = Ops::Set(kMagnitude), one = Ops::Set(1), none = Ops::Set(0);
  const D shift = Ops::SetDoubles(shift_value);
  I signed_max = Ops::Set(INT32_MIN), unsigned_max = none, smallest = Ops::Set(-1), zeros = none;
  D deviation_low = Ops::SetDoubles(0), deviation_high = Ops::SetDoubles(0);
  D squared_low = Ops::SetDoubles(0), squared_high = Ops::SetDoubles(0);
  I set = none;
  for (int64_t i = 0; i < count; i += Ops::kLanes) {
    const I bits = Loader::At(begin + i * Loader::kBytes);
    if constexpr (kGrid) set = Ops::Or(set, bits);
    const I magnitude = Ops::And(bits, magnitude_mask);
    signed_max = Ops::MaxSigned(signed_max, bits);
    unsigned_max = Ops::MaxUnsigned(unsigned_max, bits);
    smallest = Ops::MinUnsigned(smallest, Ops::Sub(magnitude, one));  // of 0: the largest
    zeros = Ops::CountEqual(zeros, magnitude, none);
    const D low = Ops::SubDoubles(Ops::LowDoubles(bits), shift);
    const D high = Ops::SubDoubles(Ops::HighDoubles(bits), shift);
    deviation_low = Ops::AddDoubles(deviation_low, low);
    deviation_high = Ops::AddDoubles(deviation_high, high);
    squared_low = Ops::MultiplyAdd(low, low, squared_low);
    squared_high = Ops::MultiplyAdd(high, high, squared_high);
  }
  int32_t lanes[Ops::kLanes];
  int32_t top = INT32_MIN;
  uint32_t bottom = 0, least = UINT32_MAX;
  Ops::Store(lanes, signed_max);
  for (int32_t lane : lanes) top = lane > top ? lane : top;
  Ops::Store(lanes, unsigned_max);
  for (int32_t lane : lanes) {
    bottom = static_cast<uint32_t>(lane) > bottom ? static_cast<uint32_t>(lane) : bottom;
  }
  if (top >= kInfinity || bottom >= 0x80000000u + static_cast<uint32_t>(kInfinity)) return false;
  Ops::Store(lanes, smallest);
  for (int32_t lane : lanes) {
    least = static_cast<uint32_t>(lane) < least ? static_cast<uint32_t>(lane) : least;
  }
  out.zeros = SumOf<Ops>(zeros);
  const int32_t nearest = out.zeros == count ? 0 : static_cast<int32_t>(least + 1);
  const int32_t toward_zero = out.zeros > 0 ? 0 : nearest;
  out.smallest = MagnitudeOf<Ops>(nearest);
  const int32_t lowest = static_cast<int32_t>(bottom & static_cast<uint32_t>(kMagnitude));
  out.max = top >= 0 ? MagnitudeOf<Ops>(top) : 0 - MagnitudeOf<Ops>(toward_zero);
  out.min = bottom > 0x80000000u    ? 0 - MagnitudeOf<Ops>(lowest)
            : bottom == 0x80000000u ? 0  // -0 is all that is negative
                                    : MagnitudeOf<Ops>(toward_zero);
  out.deviation = SumOfDoubles<Ops>(deviation_low) + SumOfDoubles<Ops>(deviation_high);
  out.squared = SumOfDoubles<Ops>(squared_low) + SumOfDoubles<Ops>(squared_high);
  out.below = out.subnormal = out.above = out.near = 0;
  out.off_fp16 = out.off_bf16 = false;
  out.mantissas = 0;
  if constexpr (kGrid) {
    out.mantissas = MantissasF32<Ops>(set);
    out.off_fp16 = (out.mantissas & kBelowFp16) == 0 && nearest != 0 && nearest < kNormalFp16 &&
                   IsBetweenSubnormals<Ops>(begin, count);
  }
  // What few blocks have is counted in a loop of its own over memory that is in the cache now.
  if (nearest != 0 && nearest < kNormal) {
    const I flushed = Ops::Set(kFlushed + 1), normal = Ops::Set(kNormal);
    I below = none, subnormal = none;
    for (int64_t i = 0; i < count; i += Ops::kLanes) {
      const I magnitude = Ops::And(Loader::At(begin + i * Loader::kBytes), magnitude_mask);
      below = Ops::CountLess(below, magnitude, flushed);
      subnormal = Ops::CountLess(subnormal, magnitude, normal);
    }
    const int64_t flushed_count = SumOf<Ops>(below);
    out.below = flushed_count - out.zeros;
    out.subnormal = SumOf<Ops>(subnormal) - flushed_count;
  }
  if (top > kNear || lowest > kNear) {
    const I near_limit = Ops::Set(kNear), above_limit = Ops::Set(kOverflow - 1);
    I near = none, above = none;
    for (int64_t i = 0; i < count; i += Ops::kLanes) {
      const I magnitude = Ops::And(Loader::At(begin + i * Loader::kBytes), magnitude_mask);
      near = Ops::CountLess(near, near_limit, magnitude);
      above = Ops::CountLess(above, above_limit, magnitude);
    }
    out.near = SumOf<Ops>(near);
    out.above = SumOf<Ops>(above);
  }
  return true;
}

// FP32. Mostly the first numbers show that the block is on no grid, and none of the others are
// asked: what is then told of mantissas are those of the first ones.
template <typename Ops>
bool StatsF32(const void* values, int64_t count, double shift, BlockStats& out) {
  const char* const from = static_cast<const char*>(values);
  const uint64_t first = MantissasF32<Ops>(Ops::Load(from));
  if ((first & kBelowFp16) == 0 || (first & kBelowBf16) == 0) {
    return StatsOf<Ops, LoadF32<Ops>, true>(values, count, shift, out);
  }
  const bool finite = StatsOf<Ops, LoadF32<Ops>, false>(values, count, shift, out);
  out.mantissas = first;
  return finite;
}

template <typename Ops, typename Loader>
bool Stats(const void* values, int64_t count, double shift, BlockStats& out) {
  return StatsOf<Ops, Loader, false>(values, count, shift, out);
}

template <typename Ops, typename Loader>
double Squares(const void* values, int64_t count) {
  using I = typename Ops::I;
  using D = typename Ops::D;
  const char* from = static_cast<const char*>(values);
  D sums[4] = {Ops::SetDoubles(0), Ops::SetDoubles(0), Ops::SetDoubles(0), Ops::SetDoubles(0)};
  const auto add = [&sums](const I bits, int at) {
    const D low = Ops::LowDoubles(bits), high = Ops::HighDoubles(bits);
    sums[at] = Ops::MultiplyAdd(low, low, sums[at]);
    sums[at + 1] = Ops::MultiplyAdd(high, high, sums[at + 1]);
  };
  int64_t i = 0;
  for (; i + 2 * Ops::kLanes <= count; i += 2 * Ops::kLanes) {
    add(Loader::At(from + i * Loader::kBytes), 0);
    add(Loader::At(from + (i + Ops::kLanes) * Loader::kBytes), 2);
  }
  for (; i < count; i += Ops::kLanes) add(Loader::At(from + i * Loader::kBytes), 0);
  return SumOfDoubles<Ops>(sums[0]) + SumOfDoubles<Ops>(sums[1]) + SumOfDoubles<Ops>(sums[2]) +
         SumOfDoubles<Ops>(sums[3]);
}

template <typename Ops>
double SquaresF64(const void* values, int64_t count) {
  using D = typename Ops::D;
  constexpr int64_t kLanes = Ops::kLanes / 2;
  const char* const from = static_cast<const char*>(values);
  D sums[4] = {Ops::SetDoubles(0), Ops::SetDoubles(0), Ops::SetDoubles(0), Ops::SetDoubles(0)};
  for (int64_t i = 0; i < count; i += 4 * kLanes) {
    for (int at = 0; at < 4; ++at) {
      const D x = Ops::LoadDoubles(from + (i + at * kLanes) * 8);
      sums[at] = Ops::MultiplyAdd(x, x, sums[at]);
    }
  }
  return SumOfDoubles<Ops>(sums[0]) + SumOfDoubles<Ops>(sums[1]) + SumOfDoubles<Ops>(sums[2]) +
         SumOfDoubles<Ops>(sums[3]);
}

template <typename Ops, bool kGrid>
bool StatsOfF64(const void* values, int64_t count, double shift_value, BlockStats& out) {
  using D = typename Ops::D;
  constexpr int kLanes = Ops::kLanes / 2;
  constexpr double kHuge = __DBL_MAX__;
  const char* const from = static_cast<const char*>(values);
  const D shift = Ops::SetDoubles(shift_value), none = Ops::SetDoubles(0);
  const D one = Ops::SetDoubles(1), huge = Ops::SetDoubles(kHuge);
  D low = huge, high = Ops::SetDoubles(-kHuge), smallest = huge;
  D zeros = none, deviation = none, squared = none, nothing = none;
  typename Ops::I set = Ops::Set(0);
  for (int64_t i = 0; i < count; i += kLanes) {
    if constexpr (kGrid) set = Ops::Or(set, Ops::Load(from + i * 8));
    const D x = Ops::LoadDoubles(from + i * 8);
    const D magnitude = Ops::AbsDoubles(x), d = Ops::SubDoubles(x, shift);
    nothing = Ops::MultiplyAdd(x, none, nothing);  // stays 0 unless an element is not finite
    low = Ops::MinDoubles(low, x);
    high = Ops::MaxDoubles(high, x);
    smallest = Ops::MinDoubles(smallest, Ops::ChooseEqual(magnitude, none, huge, magnitude));
    zeros = Ops::AddDoubles(zeros, Ops::ChooseEqual(magnitude, none, one, none));
    deviation = Ops::AddDoubles(deviation, d);
    squared = Ops::MultiplyAdd(d, d, squared);
  }
  if (SumOfDoubles<Ops>(nothing) != 0) return false;  // NaN is not 0
  out = {};
  out.min = out.smallest = kHuge;
  out.max = -kHuge;
  double lanes[kLanes];
  Ops::StoreDoubles(lanes, low);
  for (double lane : lanes) out.min = lane < out.min ? lane : out.min;
  Ops::StoreDoubles(lanes, high);
  for (double lane : lanes) out.max = lane > out.max ? lane : out.max;
  Ops::StoreDoubles(lanes, smallest);
  for (double lane : lanes) out.smallest = lane < out.smallest ? lane : out.smallest;
  out.zeros = static_cast<int64_t>(SumOfDoubles<Ops>(zeros));
  out.deviation = SumOfDoubles<Ops>(deviation);
  out.squared = SumOfDoubles<Ops>(squared);
  if (out.zeros == count) out.smallest = 0;
  out.min += 0.0;  // of -0 this makes 0
  out.max += 0.0;
  if constexpr (kGrid) {
    out.mantissas = MantissasF64<Ops>(set);
    out.off_fp16 = (out.mantissas & kBelowFp16) == 0 && IsBeside<Ops>(from, count, 65504, 0x1p-24);
    out.off_bf16 =
        (out.mantissas & kBelowBf16) == 0 && IsBeside<Ops>(from, count, kMostBf16, kLeastBf16);
  }
  constexpr double kNormal64 = 2047 * 0x1p-25, kNear64 = kNearMax;
  const double largest = out.max > -out.min ? out.max : -out.min;
  if ((out.smallest != 0 && out.smallest < kNormal64) || largest > kNear64) {
    int64_t below = 0, subnormal = 0, above = 0, near = 0;
    for (int64_t i = 0; i < count; ++i) {
      double x;
      __builtin_memcpy(&x, from + i * 8, 8);
      const double magnitude = __builtin_fabs(x);
      below += magnitude <= 0x1p-25;
      subnormal += magnitude < kNormal64;
      above += magnitude >= 65520.0;
      near += magnitude > kNear64;
    }
    out.below = below - out.zeros;
    out.subnormal = subnormal - below;
    out.above = above;
    out.near = near;
  }
  return true;
}

// As StatsF32.
template <typename Ops>
bool StatsF64(const void* values, int64_t count, double shift, BlockStats& out) {
  const uint64_t first = MantissasF64<Ops>(Ops::Load(static_cast<const char*>(values)));
  if ((first & kBelowFp16) == 0 || (first & kBelowBf16) == 0) {
    return StatsOfF64<Ops, true>(values, count, shift, out);
  }
  const bool finite = StatsOfF64<Ops, false>(values, count, shift, out);
  out.mantissas = first;
  return finite;
}

// NaN and infinities by the largest magnitude among lanes of kWidth bytes, the type's own; for FP64
// among the upper halves.
template <typename Ops, int kBytes, int kWidth, int64_t kMask, uint32_t kLimit>
bool AllFinite(const void* values, int64_t count) {
  using I = typename Ops::I;
  const char* const begin = static_cast<const char*>(values);
  constexpr int64_t kStep = Ops::kLanes * 4;
  const int64_t bytes = count * kBytes;
  const I keep = Ops::SetMask(kMask);
  I worst = Ops::Set(0), other = Ops::Set(0);
  int64_t i = 0;
  for (; i + 2 * kStep <= bytes; i += 2 * kStep) {
    worst = Ops::template MaxLanes<kWidth>(worst, Ops::And(Ops::Load(begin + i), keep));
    other = Ops::template MaxLanes<kWidth>(other, Ops::And(Ops::Load(begin + i + kStep), keep));
  }
  for (; i < bytes; i += kStep)
    worst = Ops::template MaxLanes<kWidth>(worst, Ops::And(Ops::Load(begin + i), keep));
  worst = Ops::template MaxLanes<kWidth>(worst, other);
  int32_t lanes[Ops::kLanes];
  Ops::Store(lanes, worst);
  for (int32_t lane : lanes) {
    for (int part = 0; part < 4; part += kWidth) {
      const auto value = static_cast<uint32_t>(lane) >> (8 * part);
      const uint32_t own = kWidth == 4 ? value : value & ((1u << (8 * (kWidth & 3))) - 1);
      if (own >= kLimit) return false;
    }
  }
  return true;
}

template <typename Ops, typename Loader>
void Decode(const void* values, int64_t count, float* out) {
  const char* const from = static_cast<const char*>(values);
  for (int64_t i = 0; i < count; i += Ops::kLanes)
    Ops::Store(out + i, Loader::At(from + i * Loader::kBytes));
}

// The exponent fields of whole blocks of four vectors, packed into bytes. Their order within a
// block is free: they are only counted.
template <typename Ops, typename Loader>
void Exponents(const void* values, int64_t count, uint8_t* out) {
  const char* const begin = static_cast<const char*>(values);
  const auto field = [begin](int64_t i) {
    return Ops::template ShiftRight<24>(
        Ops::template ShiftLeft<1>(Loader::At(begin + i * Loader::kBytes)));
  };
  constexpr int64_t kLanes = Ops::kLanes;
  for (int64_t i = 0; i < count; i += 4 * kLanes) {
    Ops::StoreBytes(out + i, field(i), field(i + kLanes), field(i + 2 * kLanes),
                    field(i + 3 * kLanes));
  }
}

// An FP64 element counts by the exponent that it has in FP32; what is too large for that by the
// largest finite one.
template <typename Ops>
void ExponentsF64(const void* values, int64_t count, uint8_t* out) {
  const char* const from = static_cast<const char*>(values);
  for (int64_t i = 0; i < count; ++i) {
    double value;
    __builtin_memcpy(&value, from + i * 8, 8);
    const auto rounded = static_cast<float>(value);
    uint32_t bits;
    __builtin_memcpy(&bits, &rounded, 4);
    const auto field = static_cast<uint8_t>(bits << 1 >> 24);
    out[i] = field == 255 && __builtin_fabs(value) <= __DBL_MAX__ ? 254 : field;
  }
}

// The exponents of a block are mostly few, so each of them is looked for in all bytes at once,
// from the largest down; where they are many, byte by byte.
template <typename Ops>
void CountBytes(const uint8_t* bytes, int64_t count, int64_t* counts) {
  using I = typename Ops::I;
  constexpr int64_t kStep = Ops::kLanes * 4;
  constexpr int kMostBins = 40;
  const int64_t whole = count - count % kStep;
  I low = Ops::Set(-1), high = Ops::Set(0);  // 0 and 255 are counted apart
  const I one = Ops::Set(0x01010101);
  for (int64_t i = 0; i < whole; i += kStep) {
    const I vector = Ops::Load(reinterpret_cast<const char*>(bytes + i));
    low = Ops::MinBytes(low, Ops::SubBytes(vector, one));
    high = Ops::template MaxLanes<1>(high, Ops::AddBytes(vector, one));
  }
  uint8_t parts[kStep];
  int least = 255, most = 0;
  Ops::Store(parts, low);
  for (uint8_t part : parts) least = part < least ? part : least;
  Ops::Store(parts, high);
  for (uint8_t part : parts) most = part > most ? part : most;
  // Now `least` + 1 is the smallest that is not 0 and `most` - 1 the largest that is not 255.
  int64_t left = whole;
  int64_t at = whole;
  if (most - least <= kMostBins) {
    const auto look_for = [&](int value) {
      if (left == 0) return;
      const int64_t found = Ops::CountByte(bytes, whole, static_cast<uint8_t>(value));
      counts[value] += found;
      left -= found;
    };
    for (int value = most - 1; value > least && value > 0; --value) look_for(value);
    look_for(0);
    look_for(255);
  } else {
    at = 0;
  }
  uint32_t tables[4][256];
  if (count - at < 64) {
    for (; at < count; ++at) ++counts[bytes[at]];
    return;
  }
  // Four tables, because neighbours share exponents and one counter would wait for itself.
  __builtin_memset(tables, 0, sizeof(tables));
  for (; at < count; ++at) ++tables[at & 3][bytes[at]];
  for (int value = 0; value < 256; ++value) {
    counts[value] += tables[0][value] + tables[1][value] + tables[2][value] + tables[3][value];
  }
}

template <typename Ops>
constexpr Kernels VectorKernels() {
  return {
      Ops::kLanes * 4,
      {nullptr, StatsF32<Ops>, Stats<Ops, LoadF16<Ops>>, Stats<Ops, LoadBf16<Ops>>, StatsF64<Ops>,
       Stats<Ops, LoadE4M3<Ops>>, Stats<Ops, LoadE5M2<Ops>>},
      {nullptr, AllFinite<Ops, 4, 4, 0x7fffffff7fffffff, 0x7f800000>,
       AllFinite<Ops, 2, 2, 0x7fff7fff7fff7fff, 0x7c00>,
       AllFinite<Ops, 2, 2, 0x7fff7fff7fff7fff, 0x7f80>,
       AllFinite<Ops, 8, 4, 0x7fffffff00000000, 0x7ff00000>,
       AllFinite<Ops, 1, 1, 0x7f7f7f7f7f7f7f7f, 0x7f>,
       AllFinite<Ops, 1, 1, 0x7f7f7f7f7f7f7f7f, 0x7c>},
      {nullptr, Squares<Ops, LoadF32<Ops>>, Squares<Ops, LoadF16<Ops>>, Squares<Ops, LoadBf16<Ops>>,
       SquaresF64<Ops>, Squares<Ops, LoadE4M3<Ops>>, Squares<Ops, LoadE5M2<Ops>>},
      {nullptr, Decode<Ops, LoadF32<Ops>>, Decode<Ops, LoadF16<Ops>>, Decode<Ops, LoadBf16<Ops>>,
       nullptr, Decode<Ops, LoadE4M3<Ops>>, Decode<Ops, LoadE5M2<Ops>>},
      {nullptr, Exponents<Ops, LoadF32<Ops>>, Exponents<Ops, LoadF16<Ops>>,
       Exponents<Ops, LoadBf16<Ops>>, ExponentsF64<Ops>, Exponents<Ops, LoadE4M3<Ops>>,
       Exponents<Ops, LoadE5M2<Ops>>},
      CountBytes<Ops>,
  };
}

}  // namespace mpnanny::internal

#endif  // MPNANNY_NUMERICS_KERNEL_BODY_H_
