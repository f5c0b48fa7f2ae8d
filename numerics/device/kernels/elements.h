// The elements of a block's part of a tensor, decoded by integers: NVRTC has no header with the
// types of 16 and 8 bits.
//
// A thread takes a few elements that lie next to each other, the next thread the next ones; the
// order in which it meets them depends on nothing but their number, so that sums are the same bits
// in each launch.
#ifndef MPNANNY_NUMERICS_DEVICE_KERNELS_ELEMENTS_H_
#define MPNANNY_NUMERICS_DEVICE_KERNELS_ELEMENTS_H_

#include "numerics/device/kernels/target.h"

namespace mpnanny::device {

// As DType counts them.
inline constexpr int kFp32 = 1, kFp16 = 2, kBf16 = 3, kFp64 = 4, kE4M3 = 5, kE5M2 = 6;

MPN_INLINE int BytesOf(int dtype) {
  return dtype == kFp64 ? 8 : dtype == kFp32 ? 4 : dtype == kFp16 || dtype == kBf16 ? 2 : 1;
}

struct alignas(16) Quad {
  unsigned int word[4];
};
struct alignas(8) Pair {
  unsigned int word[2];
};

// What one block reads of one tensor.
struct Part {
  unsigned char* at;
  int dtype;
  int count;
  bool aligned;  // packs can be loaded as a whole
};

// The bits of FP32 that mean the same.
MPN_INLINE unsigned int FromFp16(unsigned int bits) {
  const unsigned int sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return sign | 0x7f800000u | (magnitude & 0x3ffu) << 13;
  return sign | BitsOf(FloatOf(magnitude << 13) * 0x1p112f);  // biases 127 and 15
}
MPN_INLINE unsigned int FromE4M3(unsigned int bits) {
  const unsigned int sign = (bits & 0x80u) << 24, magnitude = bits & 0x7fu;
  if (magnitude == 0x7fu) return sign | 0x7fc00000u;
  return sign | BitsOf(FloatOf(magnitude << 20) * 0x1p120f);  // biases 127 and 7
}

// As few loads as their number allows; `at` is aligned to all of them, at most to 16 bytes.
template <int kCount>
MPN_INLINE void LoadWords(const unsigned char* at, unsigned int* out) {
  if constexpr (kCount % 4 == 0) {
    MPN_UNROLL
    for (int i = 0; i < kCount; i += 4) {
      const Quad words = Load<Quad>(at + i * 4);
      MPN_UNROLL
      for (int k = 0; k < 4; ++k) out[i + k] = words.word[k];
    }
  } else if constexpr (kCount == 2) {
    const Pair words = Load<Pair>(at);
    out[0] = words.word[0];
    out[1] = words.word[1];
  } else {
    out[0] = Load<unsigned int>(at);
  }
}

// Elements of every dtype but FP64, as bits of FP32.
struct Narrow {
  using Bits = unsigned int;
  static constexpr int kPack = 8;
  static constexpr Bits kMagnitude = 0x7fffffffu, kInfinity = 0x7f800000u;
  // Against FP16 (numerics/kernels.h): the largest that becomes 0, the smallest that does not
  // become subnormal, the smallest that becomes infinite, 0.9 of the largest number.
  static constexpr Bits kFlushed = 0x33000000u, kNormal = 0x387fe000u, kOverflow = 0x477ff000u,
                        kNear = 0x47664999u;

  static MPN_INLINE double Value(Bits bits) { return static_cast<double>(FloatOf(bits)); }
  static MPN_INLINE unsigned int Exponent(Bits magnitude) { return magnitude >> 23; }

  static MPN_INLINE Bits At(const Part& part, int i) {
    const unsigned char* const at = part.at + static_cast<long long>(i) * BytesOf(part.dtype);
    switch (part.dtype) {
      case kFp32:
        return Load<unsigned int>(at);
      case kFp16:
        return FromFp16(Load<unsigned short>(at));
      case kBf16:
        return static_cast<unsigned int>(Load<unsigned short>(at)) << 16;
      case kE4M3:
        return FromE4M3(*at);
      default:
        return FromFp16(static_cast<unsigned int>(*at) << 8);
    }
  }

  // A pack whose memory is aligned.
  template <int kCount>
  static MPN_INLINE void Read(const Part& part, int first, Bits (&out)[kCount]) {
    const unsigned char* const at = part.at + static_cast<long long>(first) * BytesOf(part.dtype);
    unsigned int words[kCount];
    if (part.dtype == kFp32) {
      LoadWords<kCount>(at, out);
    } else if (part.dtype == kFp16 || part.dtype == kBf16) {
      LoadWords<kCount / 2>(at, words);
      MPN_UNROLL
      for (int i = 0; i < kCount; ++i) {
        const unsigned int half = words[i / 2] >> (i % 2 * 16) & 0xffffu;
        out[i] = part.dtype == kFp16 ? FromFp16(half) : half << 16;
      }
    } else {
      LoadWords<kCount / 4>(at, words);
      MPN_UNROLL
      for (int i = 0; i < kCount; ++i) {
        const unsigned int byte = words[i / 4] >> (i % 4 * 8) & 0xffu;
        out[i] = part.dtype == kE4M3 ? FromE4M3(byte) : FromFp16(byte << 8);
      }
    }
  }
};

// FP64 by its own bits.
struct Wide {
  using Bits = unsigned long long;
  static constexpr int kPack = 4;
  static constexpr Bits kMagnitude = 0x7fffffffffffffffull, kInfinity = 0x7ff0000000000000ull;
  static constexpr Bits kFlushed = 0x3e60000000000000ull, kNormal = 0x3f0ffc0000000000ull,
                        kOverflow = 0x40effe0000000000ull, kNear = 0x40ecc93320000000ull;

  static MPN_INLINE double Value(Bits bits) { return DoubleOf(bits); }
  // That of the FP32 to which it rounds; what is finite stays below that of infinities.
  static MPN_INLINE unsigned int Exponent(Bits magnitude) {
    const unsigned int field = BitsOf(static_cast<float>(DoubleOf(magnitude))) >> 23;
    return field == 255 && magnitude < kInfinity ? 254 : field;
  }

  static MPN_INLINE Bits At(const Part& part, int i) {
    if (part.dtype == kFp64)
      return Load<unsigned long long>(part.at + static_cast<long long>(i) * 8);
    return BitsOf(Narrow::Value(Narrow::At(part, i)));
  }

  // Of every dtype.
  static MPN_INLINE void Read(const Part& part, int first, Bits (&out)[kPack]) {
    if (part.dtype != kFp64) {
      unsigned int narrow[kPack];
      Narrow::Read(part, first, narrow);
      MPN_UNROLL
      for (int i = 0; i < kPack; ++i) out[i] = BitsOf(Narrow::Value(narrow[i]));
      return;
    }
    unsigned int words[2 * kPack];
    LoadWords<2 * kPack>(part.at + static_cast<long long>(first) * 8, words);
    MPN_UNROLL
    for (int i = 0; i < kPack; ++i)
      out[i] = words[2 * i] | static_cast<unsigned long long>(words[2 * i + 1]) << 32;
  }
};

// Where a block is: which row, which part of it.
struct Place {
  int row;
  long long start;
  int count;
  int blocks;  // of the row

  MPN_INLINE Part Of(const Table& table, int which) const {
    return At(table.row[row].address[which], table.row[row].dtypes[which]);
  }
  MPN_INLINE Part Of(const FlagsTable& table) const {
    return At(table.row[row].address, static_cast<int>(table.row[row].dtype));
  }
  MPN_INLINE Part At(unsigned long long address, int dtype) const {
    return {reinterpret_cast<unsigned char*>(address) + start * BytesOf(dtype), dtype, count,
            address % 16 == 0};
  }
};

template <typename AnyTable>
MPN_INLINE Place FindPlace(const AnyTable& table, int block) {
  int low = 0, high = table.rows;  // the row is in [low, high)
  MPN_ROLLED
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (static_cast<int>(table.row[middle].first_block) <= block) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const int first = static_cast<int>(table.row[low].first_block);
  const int next =
      low + 1 < table.rows ? static_cast<int>(table.row[low + 1].first_block) : table.blocks;
  const long long start = static_cast<long long>(block - first) * kElements;
  const long long left = static_cast<long long>(table.row[low].elements) - start;
  return {low, start, static_cast<int>(left < kElements ? left : kElements), next - first};
}

// Calls `whole(first)` with each pack of a part of `elements` that is this thread's, or `each(i)`
// with its elements where it is not whole or must not be loaded as one.
template <typename Whole, typename Each>
MPN_INLINE void ForEachPack(int elements, int pack, bool aligned, int thread, Whole whole,
                            Each each) {
  MPN_ROLLED
  for (int first = thread * pack; first < elements; first += kThreads * pack) {
    const int left = elements - first;
    if (aligned && left >= pack) {
      whole(first);
      continue;
    }
    MPN_ROLLED
    for (int i = 0; i < pack && i < left; ++i) each(first + i);
  }
}

// Calls `visit(bits)` with each element of the part that is this thread's.
template <typename Type, typename Visit>
MPN_INLINE void ForEachElement(const Part& part, int thread, Visit visit) {
  ForEachPack(
      part.count, Type::kPack, part.aligned, thread,
      [&](int first) {
        typename Type::Bits bits[Type::kPack];
        Type::Read(part, first, bits);
        MPN_UNROLL
        for (int i = 0; i < Type::kPack; ++i) visit(bits[i]);
      },
      [&](int i) { visit(Type::At(part, i)); });
}

}  // namespace mpnanny::device

#endif  // MPNANNY_NUMERICS_DEVICE_KERNELS_ELEMENTS_H_
