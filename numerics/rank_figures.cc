#include "numerics/rank_figures.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "numerics/element_blocks.h"

namespace mpnanny {
namespace {

// Weyl's sequence of the golden ratio, and two rounds of multiply and shift with the constants of
// MurmurHash3's finalizer: each bit of the input changes half of the output.
constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;

uint64_t Mixed(uint64_t x) {
  x ^= x >> 33;
  x *= 0xFF51AFD7ED558CCDu;
  x ^= x >> 33;
  x *= 0xC4CEB9FE1A85EC53u;
  return x ^ (x >> 33);
}

uint64_t KeyOf(int64_t place) { return (static_cast<uint64_t>(place) + 1) * kGolden; }

template <typename Bits>
uint64_t HashOf(const char* values, int64_t count, int64_t first) {
  uint64_t hash = 0;
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, values + i * static_cast<int64_t>(sizeof bits), sizeof bits);
    hash += Mixed(static_cast<uint64_t>(bits) ^ KeyOf(first + i));
  }
  return hash;
}

uint64_t HashOf(int bytes, const char* values, int64_t count, int64_t first) {
  switch (bytes) {
    case 1:
      return HashOf<uint8_t>(values, count, first);
    case 2:
      return HashOf<uint16_t>(values, count, first);
    case 4:
      return HashOf<uint32_t>(values, count, first);
    default:
      return HashOf<uint64_t>(values, count, first);
  }
}

// A sum waits for the one before it; of several side by side none waits.
constexpr int kLanes = 4;
struct Lanes {
  double squares[kLanes] = {}, sketch[kSketchRows][kLanes] = {};
};

// Without a branch, which signs would make the processor guess wrong half of the time.
double WithSign(double value, uint64_t signs, int row) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(value) ^ (~(signs >> row) & 1) << 63);
}

template <typename Number>
void Sum(const Number* values, int64_t count, int64_t first, Lanes& lanes, RankFigures& into) {
  for (int64_t i = 0; i < count; ++i) {
    double value = values[i];
    if (!std::isfinite(value)) {
      ++into.nonfinite;
      value = 0;
    }
    const uint64_t signs = Mixed(KeyOf(first + i));
    const auto lane = static_cast<size_t>(i % kLanes);
    lanes.squares[lane] += value * value;
    for (int row = 0; row < kSketchRows; ++row)
      lanes.sketch[row][lane] += WithSign(value, signs, row);
  }
}

}  // namespace

RankFigures ComputeRankFigures(const TensorView& view, int64_t first) {
  RankFigures figures;
  figures.numel = view.numel();
  if (view.known != nullptr || view.dtype == DType::kUnknown) return figures;
  const internal::Layout layout = internal::OrderedLayout(view);
  const int bytes = ElementBytes(view.dtype);
  Lanes lanes;
  internal::ForEachBlock(view, layout, [&](const char* values, int64_t count) {
    figures.hash += HashOf(bytes, values, count, first);
    if (view.dtype == DType::kFloat64) {
      double wide[internal::kBlock];
      std::memcpy(wide, values, static_cast<size_t>(count) * sizeof(double));
      Sum(wide, count, first, lanes, figures);
    } else {
      float decoded[internal::kBlock];
      internal::DecodeElements(view.dtype, values, count, decoded);
      Sum(decoded, count, first, lanes, figures);
    }
    first += count;
    return true;
  });
  for (int lane = 0; lane < kLanes; ++lane) {
    figures.squares += lanes.squares[lane];
    for (int row = 0; row < kSketchRows; ++row)
      figures.sketch[static_cast<size_t>(row)] += lanes.sketch[row][lane];
  }
  return figures;
}

}  // namespace mpnanny
