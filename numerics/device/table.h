// What the host and the device kernels tell each other: rows that name tensors, slots that hold
// what came out, and the scratch memory between them.
//
// Plain values of one layout on both sides. NVRTC compiles this file too, and has no headers of the
// standard library: hence `long long` instead of int64_t, and no include.
#ifndef MPNANNY_NUMERICS_DEVICE_TABLE_H_
#define MPNANNY_NUMERICS_DEVICE_TABLE_H_

namespace mpnanny::device {

// A launch takes one table, which travels with it as a parameter: at most 4 KB, and nothing that
// has to be copied or to stay alive.
inline constexpr int kRows = 64;
inline constexpr int kFlagsRows = 250;     // of `flags`, which reads one tensor of a row
inline constexpr int kThreads = 256;       // of a block
inline constexpr int kElements = 1 << 16;  // of a row that one block reads

// Options of a row.
inline constexpr unsigned int kRestarts = 1;  // mpn_compare_flushed puts its reference right
inline constexpr unsigned int kGated = 2;     // mpn_figures leaves at once while *address[1] is 0

// Tensors that belong together, of the same number of elements, each contiguous and aligned to its
// elements: flags and figures read the first, `compare` the held values and the reference, `change`
// held before, held after, reference before, reference after.
struct Row {
  unsigned long long address[4];
  long long elements;
  int first_block;          // of this row in the launch; FillTable() sets it
  int slot;                 // index of the result
  unsigned char dtypes[4];  // DType
  unsigned int options;
};
struct Table {
  int rows;
  int blocks;  // of all rows; a row without elements has one as well
  Row row[kRows];
};
static_assert(sizeof(Row) == 56 && sizeof(Table) == 8 + kRows * sizeof(Row));

// The same in fewer bits, of one tensor and without options, so that a launch takes more of them.
inline constexpr int kFlagsElementBits = 36, kFlagsBlockBits = 28;
struct FlagsRow {
  unsigned long long address : 60, dtype : 4;
  unsigned long long elements : kFlagsElementBits, first_block : kFlagsBlockBits;
};
struct FlagsTable {
  int rows;
  int blocks;
  int first_slot;  // of the first row; the others follow
  int unused;
  FlagsRow row[kFlagsRows];
};
static_assert(sizeof(FlagsRow) == 16 && sizeof(FlagsTable) == 16 + kFlagsRows * sizeof(FlagsRow));

// Extremes, sums: over finite elements; all 0 where there are none.
struct FlagsSlot {
  long long elements, nan, posinf, neginf;
  double least, greatest;
  double squares;
};

// TensorStats and its histogram of exponents.
struct FiguresSlot {
  long long elements, nan, posinf, neginf, zeros, finite;
  long long below_fp16, subnormal_fp16, above_fp16, near_fp16_max;
  double min, max, absmax, absmin, mean, squared_deviation, squares;
  long long exponents[256];
};

// ReferenceError.
struct CompareSlot {
  long long elements, range, undefined, infinite, reference_only, nonzero, flushed, wrong_integers,
      clipped, integers;
  double squared_error, squared_reference, squared_flushed, max_error, max_reference, max_held;
  unsigned long long flushed_that_matter, flushed_in_range, flushed_that_matter_in_range;
};

// ChangeError.
struct ChangeSlot {
  long long elements, moved, lost;
  double change, lost_change, kept_change, squared_change, squared_error;
};

// What one block found of its part of a row; what the numbers are is the kernel's affair.
struct Partial {
  unsigned int counts[12];
  double values[8];
  unsigned long long keys[4];
};
// How far a row is. Zero before a launch, and left so by it.
struct Progress {
  unsigned long long exponents[256];
  unsigned int ended;  // blocks
  unsigned int unused;
};
// Zero when it is first used, and of one stream: two launches at the same time must not share it.
// `partials` has one for each block of the largest launch.
struct Scratch {
  Progress progress[kFlagsRows];
  Partial partials[1];
};

}  // namespace mpnanny::device

#endif  // MPNANNY_NUMERICS_DEVICE_TABLE_H_
