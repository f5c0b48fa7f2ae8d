#include "numerics/reference_error.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "numerics/clones.h"
#include "numerics/element_reader.h"
#include "numerics/format.h"

namespace mpnanny {
namespace {

using internal::ElementReader;
using internal::kBlock;

constexpr int kLanes = 8;

// The format of an element; nullptr of FP64, which every double fits.
const FormatInfo* FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return &Info(Format::kFp16);
    case DType::kBFloat16:
      return &Info(Format::kBf16);
    case DType::kFloat32:
      return &Info(Format::kFp32);
    case DType::kFloat8E4M3:
      return &Info(Format::kE4M3);
    case DType::kFloat8E5M2:
      return &Info(Format::kE5M2);
    case DType::kFloat64:
    case DType::kUnknown:
      break;
  }
  return nullptr;
}

// Adding and subtracting 2^52 rounds to a whole number; what is as large has no fraction.
inline bool IsWhole(double magnitude) {
  constexpr double kRound = 0x1p52;
  return (magnitude + kRound) - kRound == magnitude || magnitude >= kRound;
}

struct Lanes {
  double error[kLanes] = {}, reference[kLanes] = {}, flushed[kLanes] = {};
  double max_error[kLanes] = {}, max_reference[kLanes] = {}, max_held[kLanes] = {};
  int64_t nonzero[kLanes] = {}, zeroed[kLanes] = {}, wrong[kLanes] = {}, whole[kLanes] = {};
  int64_t clipped[kLanes] = {};
};

// The loop over finite elements. `count` is a multiple of kLanes.
MPNANNY_CLONES void AddFinite(const double* held, const double* reference, int64_t count,
                              double largest, Lanes& out) {
  Lanes sums = out;
  for (int64_t at = 0; at < count; at += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const double h = held[at + lane], r = reference[at + lane];
      const double difference = h - r;
      const double error = std::fabs(difference);
      const double magnitude = std::fabs(r), own = std::fabs(h);
      sums.error[lane] += difference * difference;
      sums.reference[lane] += r * r;
      sums.max_error[lane] = error > sums.max_error[lane] ? error : sums.max_error[lane];
      sums.max_reference[lane] =
          magnitude > sums.max_reference[lane] ? magnitude : sums.max_reference[lane];
      sums.max_held[lane] = own > sums.max_held[lane] ? own : sums.max_held[lane];
      const bool nonzero = r != 0;
      const bool flushed = nonzero & (h == 0);
      sums.nonzero[lane] += nonzero ? 1 : 0;
      sums.zeroed[lane] += flushed ? 1 : 0;
      sums.flushed[lane] += flushed ? r * r : 0.0;
      const bool whole = IsWhole(magnitude);
      sums.whole[lane] += whole ? 1 : 0;
      sums.wrong[lane] += (whole & (error != 0)) ? 1 : 0;
      sums.clipped[lane] += ((own == largest) & (magnitude > largest)) ? 1 : 0;
    }
  }
  out = sums;
}

struct ChangeLanes {
  double change[kLanes] = {}, lost_change[kLanes] = {}, kept_change[kLanes] = {};
  double squared_change[kLanes] = {}, squared_error[kLanes] = {};
  int64_t moved[kLanes] = {}, lost[kLanes] = {};
};

// `count` is a multiple of kLanes.
MPNANNY_CLONES void AddChanges(const double* held_before, const double* held_after,
                               const double* reference_before, const double* reference_after,
                               int64_t count, ChangeLanes& out) {
  ChangeLanes sums = out;
  for (int64_t at = 0; at < count; at += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const int64_t i = at + lane;
      const double held = held_after[i] - held_before[i];
      const double wanted = reference_after[i] - reference_before[i];
      // An infinity or a NaN times 0 is NaN, which equals nothing.
      const bool moved = (held * 0.0 == wanted * 0.0) & (wanted != 0);
      const double h = moved ? held : 0.0, w = moved ? wanted : 0.0;
      const double size = std::fabs(w), error = h - w;
      const bool lost = moved & (h == 0);
      sums.moved[lane] += moved ? 1 : 0;
      sums.lost[lane] += lost ? 1 : 0;
      sums.change[lane] += size;
      sums.lost_change[lane] += lost ? size : 0.0;
      sums.kept_change[lane] += std::copysign(1.0, w) * h;
      sums.squared_change[lane] += w * w;
      sums.squared_error[lane] += error * error;
    }
  }
  out = sums;
}

// Whether all are finite: an infinity or a NaN times 0 is NaN, and NaN stays in a sum.
MPNANNY_CLONES bool AllFinite(const double* values, int64_t count) {
  double zeros[kLanes] = {};
  int64_t at = 0;
  for (; at + kLanes <= count; at += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) zeros[lane] += values[at + lane] * 0.0;
  }
  double sum = 0;
  for (; at < count; ++at) sum += values[at] * 0.0;
  for (const double zero : zeros) sum += zero;
  return sum == 0;
}

// Counts the pairs that are not finite and puts zeros in their place, which add nothing. Returns
// how many.
int64_t TakeNonFinite(double* held, double* reference, int64_t count, ReferenceError& out) {
  int64_t taken = 0;
  for (int64_t i = 0; i < count; ++i) {
    const bool held_finite = std::isfinite(held[i]), finite = std::isfinite(reference[i]);
    if (held_finite && finite) continue;
    if (finite) {
      ++out.range;
      out.max_reference = std::max(out.max_reference, std::fabs(reference[i]));
      out.nonzero += reference[i] != 0 ? 1 : 0;
    } else if (held_finite) {
      ++out.reference_only;
    } else if (std::isnan(reference[i])) {
      ++out.undefined;
    } else {
      ++out.infinite;
    }
    held[i] = reference[i] = 0;
    ++taken;
  }
  return taken;
}

template <typename T>
T Sum(const T (&lanes)[kLanes]) {
  T sum = 0;
  for (const T lane : lanes) sum += lane;
  return sum;
}

double Max(const double (&lanes)[kLanes]) { return *std::max_element(lanes, lanes + kLanes); }

// The sums of squares again, of elements that are scaled down: for those of which double holds no
// squares. `most`: the largest magnitude.
void AddScaledSquares(const TensorView& held, const TensorView& reference, double most,
                      ReferenceError& out) {
  constexpr int kExponent = 480;  // up to 2^40 squares of twice as much stay below 2^1024
  const double scale = std::ldexp(1.0, kExponent - std::ilogb(most));
  ElementReader values(held), references(reference);
  out.squared_error = out.squared_reference = out.squared_flushed = 0;
  alignas(64) double h[kBlock], r[kBlock];
  for (int64_t left = out.numel; left > 0;) {
    const int64_t count = std::min(left, kBlock);
    values.Read(count, h);
    references.Read(count, r);
    for (int64_t i = 0; i < count; ++i) {
      if (!std::isfinite(h[i]) || !std::isfinite(r[i])) continue;
      const double wanted = r[i] * scale, error = h[i] * scale - wanted;
      out.squared_error += error * error;
      out.squared_reference += wanted * wanted;
      if (r[i] != 0 && h[i] == 0) out.squared_flushed += wanted * wanted;
    }
    left -= count;
  }
}

// A second pass, over what few comparisons have: which of the flushed elements count.
void CountFlushed(const TensorView& held, const TensorView& reference, ReferenceError& out) {
  const double matters =
      kMatters * std::sqrt(out.squared_reference / static_cast<double>(out.numel));
  const FormatInfo* format = FormatOf(held.dtype);
  const double smallest = format != nullptr ? format->min_subnormal
                                            : std::numeric_limits<double>::denorm_min();
  ElementReader values(held), references(reference);
  alignas(64) double h[kBlock], r[kBlock];
  for (int64_t left = out.numel; left > 0;) {
    const int64_t count = std::min(left, kBlock);
    values.Read(count, h);
    references.Read(count, r);
    for (int64_t i = 0; i < count; ++i) {
      const double magnitude = std::fabs(r[i]);
      if (h[i] != 0 || !(magnitude > 0) || !std::isfinite(magnitude)) continue;
      out.flushed_that_matter += magnitude >= matters ? 1 : 0;
      out.flushed_in_range += magnitude >= smallest ? 1 : 0;
      out.flushed_that_matter_in_range += magnitude >= std::max(matters, smallest) ? 1 : 0;
    }
    left -= count;
  }
}

bool Readable(const TensorView& view, int64_t numel) {
  return view.dtype != DType::kUnknown && view.known == nullptr && view.numel() == numel;
}

}  // namespace

ReferenceError CompareWithReference(const TensorView& held, const TensorView& reference) {
  ReferenceError found;
  const int64_t numel = held.numel();
  if (!Readable(held, numel) || !Readable(reference, numel)) return found;
  found.numel = numel;
  const FormatInfo* format = FormatOf(held.dtype);
  const double largest =
      format != nullptr ? format->max : std::numeric_limits<double>::infinity();
  ElementReader values(held), references(reference);
  Lanes sums;
  int64_t added = 0;  // zeros that stand for no element of their own
  alignas(64) double h[kBlock], r[kBlock];
  for (int64_t left = numel; left > 0;) {
    const int64_t count = std::min(left, kBlock);
    values.Read(count, h);
    references.Read(count, r);
    if (!AllFinite(h, count) || !AllFinite(r, count)) added += TakeNonFinite(h, r, count, found);
    const int64_t padded = (count + kLanes - 1) / kLanes * kLanes;
    std::fill(h + count, h + padded, 0.0);
    std::fill(r + count, r + padded, 0.0);
    added += padded - count;
    AddFinite(h, r, padded, largest, sums);
    left -= count;
  }
  found.squared_error = Sum(sums.error);
  found.squared_reference = Sum(sums.reference);
  found.squared_flushed = Sum(sums.flushed);
  found.max_error = Max(sums.max_error);
  found.max_reference = std::max(found.max_reference, Max(sums.max_reference));
  found.max_held = Max(sums.max_held);
  if (!std::isfinite(found.squared_error + found.squared_reference)) {
    const double most = std::max(Max(sums.max_reference), found.max_held);
    AddScaledSquares(held, reference, most, found);
  }
  found.nonzero += Sum(sums.nonzero);
  found.flushed = Sum(sums.zeroed);
  found.wrong_integers = Sum(sums.wrong);
  found.clipped = Sum(sums.clipped);
  const bool are_many =
      static_cast<double>(found.flushed) > kManyFlushed * static_cast<double>(found.nonzero);
  if (found.flushed > 0 && (are_many || found.squared_flushed > kMuchFlushed * found.squared_error))
    CountFlushed(held, reference, found);
  const int64_t finite = numel - found.nonfinite() - found.reference_only;
  found.integers = finite > 0 && Sum(sums.whole) - added == finite;
  return found;
}

ChangeError CompareChange(const TensorView& held_before, const TensorView& held_after,
                          const TensorView& reference_before, const TensorView& reference_after) {
  ChangeError found;
  const int64_t numel = held_before.numel();
  for (const TensorView* view : {&held_before, &held_after, &reference_before, &reference_after}) {
    if (!Readable(*view, numel)) return found;
  }
  found.numel = numel;
  ElementReader old_values(held_before), new_values(held_after);
  ElementReader old_references(reference_before), new_references(reference_after);
  ChangeLanes sums;
  alignas(64) double old_held[kBlock], new_held[kBlock];
  alignas(64) double old_reference[kBlock], new_reference[kBlock];
  for (int64_t left = numel; left > 0;) {
    const int64_t count = std::min(left, kBlock);
    old_values.Read(count, old_held);
    new_values.Read(count, new_held);
    old_references.Read(count, old_reference);
    new_references.Read(count, new_reference);
    const int64_t padded = (count + kLanes - 1) / kLanes * kLanes;
    for (double* values : {old_held, new_held, old_reference, new_reference})
      std::fill(values + count, values + padded, 0.0);
    AddChanges(old_held, new_held, old_reference, new_reference, padded, sums);
    left -= count;
  }
  found.moved = Sum(sums.moved);
  found.lost = Sum(sums.lost);
  found.change = Sum(sums.change);
  found.lost_change = Sum(sums.lost_change);
  found.kept_change = Sum(sums.kept_change);
  found.squared_change = Sum(sums.squared_change);
  found.squared_error = Sum(sums.squared_error);
  return found;
}

}  // namespace mpnanny
