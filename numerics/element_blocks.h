// Walks a tensor of any layout as blocks of contiguous FP32 (or FP64) values: the part that all
// kernels share.
//
// FP32 and FP64 runs with stride 1 are handed out where they lie; everything else is converted or
// gathered into a small buffer on the stack, which stays in the first cache. Internal to numerics/.
#ifndef MPNANNY_NUMERICS_ELEMENT_BLOCKS_H_
#define MPNANNY_NUMERICS_ELEMENT_BLOCKS_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "numerics/format.h"
#include "numerics/tensor_stats.h"

namespace mpnanny::internal {

inline constexpr int64_t kBlock = 1024;

// The layout with dimensions of size 1 dropped and neighbours joined where they are contiguous to
// each other, so that the innermost run is as long as it can be. Order of elements is kept.
struct Layout {
  std::vector<int64_t> shape, strides;  // outer dimensions; the run is apart
  int64_t run = 1;                      // elements of the innermost dimension
  int64_t run_stride = 1;
};

inline Layout Simplify(const TensorView& view) {
  std::vector<int64_t> shape, strides;
  const size_t dims = view.shape.size();
  int64_t contiguous = 1;
  std::vector<int64_t> own(view.strides.begin(), view.strides.end());
  if (own.empty()) {
    own.resize(dims);
    for (size_t i = dims; i-- > 0;) {
      own[i] = contiguous;
      contiguous *= view.shape[i];
    }
  }
  for (size_t i = 0; i < dims; ++i) {
    if (view.shape[i] == 1) continue;
    if (!shape.empty() && strides.back() == own[i] * view.shape[i]) {
      shape.back() *= view.shape[i];
      strides.back() = own[i];
    } else {
      shape.push_back(view.shape[i]);
      strides.push_back(own[i]);
    }
  }
  Layout layout;
  if (!shape.empty()) {
    layout.run = shape.back();
    layout.run_stride = strides.back();
    shape.pop_back();
    strides.pop_back();
  }
  layout.shape = std::move(shape);
  layout.strides = std::move(strides);
  return layout;
}

// Calls `run(first_element_offset, count, stride)` for every innermost run.
template <typename Run>
void ForEachRun(const TensorView& view, Run run) {
  if (view.numel() == 0) return;
  const Layout layout = Simplify(view);
  std::vector<int64_t> index(layout.shape.size(), 0);
  int64_t offset = 0;
  while (true) {
    run(offset, layout.run, layout.run_stride);
    size_t dim = index.size();
    while (dim > 0) {
      --dim;
      offset += layout.strides[dim];
      if (++index[dim] < layout.shape[dim]) break;
      offset -= layout.strides[dim] * layout.shape[dim];
      index[dim] = 0;
      if (dim == 0) return;
    }
    if (index.empty()) return;
  }
}

struct Fp16Decoder {
  // Fp16ToFloat without branches, so that it vectorises.
  static float Decode(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t shifted = static_cast<uint32_t>(bits & 0x7fffu) << 13;
    const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(shifted) * 0x1p112f);
    const uint32_t special = shifted >= (0x7c00u << 13) ? 0x7f800000u : 0u;
    return std::bit_cast<float>(sign | finite | special);
  }
};
struct Bf16Decoder {
  static float Decode(uint16_t bits) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

template <float (*kDecode)(uint8_t)>
struct Fp8Decoder {
  static float Decode(uint8_t bits) {
    static const std::array<float, 256> table = [] {
      std::array<float, 256> all{};
      for (int i = 0; i < 256; ++i) all[static_cast<size_t>(i)] = kDecode(static_cast<uint8_t>(i));
      return all;
    }();
    return table[bits];
  }
};

template <typename Stored, typename Decoder, typename Block>
void DecodedBlocks(const TensorView& view, Block block) {
  const auto* base = static_cast<const Stored*>(view.data);
  float buffer[kBlock];
  int64_t filled = 0;
  ForEachRun(view, [&](int64_t offset, int64_t count, int64_t stride) {
    for (int64_t done = 0; done < count;) {
      const int64_t n = std::min(count - done, kBlock - filled);
      const Stored* from = base + offset + done * stride;
      if (stride == 1) {
        for (int64_t i = 0; i < n; ++i) buffer[filled + i] = Decoder::Decode(from[i]);
      } else {
        for (int64_t i = 0; i < n; ++i) buffer[filled + i] = Decoder::Decode(from[i * stride]);
      }
      done += n;
      filled += n;
      if (filled == kBlock) {
        block(buffer, filled);
        filled = 0;
      }
    }
  });
  if (filled > 0) block(buffer, filled);
}

// FP32 and FP64: handed out in place where the run is contiguous and long enough, else gathered.
template <typename Float, typename Block>
void NativeBlocks(const TensorView& view, Block block) {
  const auto* base = static_cast<const Float*>(view.data);
  Float buffer[kBlock];
  int64_t filled = 0;
  ForEachRun(view, [&](int64_t offset, int64_t count, int64_t stride) {
    int64_t done = 0;
    if (stride == 1 && filled == 0) {
      for (; count - done >= kBlock; done += kBlock) block(base + offset + done, kBlock);
    }
    while (done < count) {
      const int64_t n = std::min(count - done, kBlock - filled);
      const Float* from = base + offset + done * stride;
      for (int64_t i = 0; i < n; ++i) buffer[filled + i] = from[i * stride];
      done += n;
      filled += n;
      if (filled == kBlock) {
        block(static_cast<const Float*>(buffer), filled);
        filled = 0;
      }
    }
  });
  if (filled > 0) block(static_cast<const Float*>(buffer), filled);
}

// Calls `block(const float*, count)`, or `block(const double*, count)` for FP64, over all elements
// in order; `count` is at most kBlock. An unknown dtype has no blocks.
template <typename Block>
void ForEachBlock(const TensorView& view, Block block) {
  switch (view.dtype) {
    case DType::kFloat32:
      return NativeBlocks<float>(view, block);
    case DType::kFloat64:
      return NativeBlocks<double>(view, block);
    case DType::kFloat16:
      return DecodedBlocks<uint16_t, Fp16Decoder>(view, block);
    case DType::kBFloat16:
      return DecodedBlocks<uint16_t, Bf16Decoder>(view, block);
    case DType::kFloat8E4M3:
      return DecodedBlocks<uint8_t, Fp8Decoder<E4M3ToFloat>>(view, block);
    case DType::kFloat8E5M2:
      return DecodedBlocks<uint8_t, Fp8Decoder<E5M2ToFloat>>(view, block);
    case DType::kUnknown:
      return;
  }
}

}  // namespace mpnanny::internal

#endif  // MPNANNY_NUMERICS_ELEMENT_BLOCKS_H_
