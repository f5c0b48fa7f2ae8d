// The host's side of table.h: rows put into a table, the scratch memory that a launch wants, and
// slots that came back, as the structs that the kernels of a CPU fill.
//
// Pure functions on values; safe from any thread.
#ifndef MPNANNY_NUMERICS_DEVICE_ROWS_H_
#define MPNANNY_NUMERICS_DEVICE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "numerics/device/table.h"
#include "numerics/reference_error.h"
#include "numerics/tensor_stats.h"

namespace mpnanny::device {

// What a kernel cannot read of a row of which it reads `tensors` addresses, in words that end a
// sentence; empty if it can.
std::string WrongWith(const Row& row, int tensors);

// Adds a row that is right, and sets its first block. False, and nothing changes, if the table is
// full: it has all its rows, or as many blocks as a launch can have. Rows of a FlagsTable have
// slots that follow each other.
bool Append(const Row& row, Table& table);
bool Append(const Row& row, FlagsTable& table);

// Blocks that a row of so many elements takes.
int64_t BlocksOf(int64_t elements);

// For a launch of so many blocks.
size_t ScratchBytes(int blocks);

// Extremes and squares: `partial`, for a training asks no more at each step.
TensorStats StatsOf(const FlagsSlot& slot);
TensorStats StatsOf(const FiguresSlot& slot);
ExponentHistogram ExponentsOf(const FiguresSlot& slot);
ReferenceError ErrorOf(const CompareSlot& slot);
ChangeError ChangeOf(const ChangeSlot& slot);

}  // namespace mpnanny::device

#endif  // MPNANNY_NUMERICS_DEVICE_ROWS_H_
