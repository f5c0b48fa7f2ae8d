#include "numerics/device/rows.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "numerics/tensor_view.h"

namespace mpnanny::device {
namespace {}  // namespace

std::string WrongWith(const Row& row, int tensors) {
  if (row.elements < 0) return "has a negative number of elements";
  if (row.slot < 0) return "has no slot";
  for (int i = 0; i < tensors; ++i) {
    const auto wrong = [&](const std::string& what) {
      return "its tensor " + std::to_string(i) + " " + what;
    };
    if (row.dtypes[i] == 0 || row.dtypes[i] >= kDTypes)
      return wrong("has the unknown dtype " + std::to_string(row.dtypes[i]));
    if (row.elements > 0 && row.address[i] == 0) return wrong("has no memory");
    if (row.address[i] % static_cast<unsigned>(ElementBytes(DType{row.dtypes[i]})) != 0)
      return wrong("is not aligned to its elements");
  }
  if ((row.options & kGated) != 0 && (row.address[1] == 0 || row.address[1] % 8 != 0))
    return "has no gate, or one that is not aligned to 8 bytes";
  return "";
}

bool Append(const Row& row, Table& table) {
  const int64_t blocks = table.blocks + BlocksOf(row.elements);
  if (table.rows == kRows || blocks > std::numeric_limits<int>::max()) return false;
  Row& added = table.row[table.rows++];
  added = row;
  added.first_block = table.blocks;
  table.blocks = static_cast<int>(blocks);
  return true;
}

bool Append(const Row& row, FlagsTable& table) {
  const int64_t blocks = table.blocks + BlocksOf(row.elements);
  if (table.rows == kFlagsRows || row.elements >> kFlagsElementBits != 0 ||
      blocks >> kFlagsBlockBits != 0 ||
      (table.rows > 0 && row.slot != table.first_slot + table.rows)) {
    return false;
  }
  if (table.rows == 0) table.first_slot = row.slot;
  FlagsRow& added = table.row[table.rows++];
  added.address = row.address[0];
  added.dtype = row.dtypes[0];
  added.elements = static_cast<unsigned long long>(row.elements);
  added.first_block = static_cast<unsigned long long>(table.blocks);
  table.blocks = static_cast<int>(blocks);
  return true;
}

int64_t BlocksOf(int64_t elements) {
  return std::max<int64_t>(1, elements / kElements + (elements % kElements != 0 ? 1 : 0));
}

size_t ScratchBytes(int blocks) {
  return offsetof(Scratch, partials) + static_cast<size_t>(blocks) * sizeof(Partial);
}

TensorStats StatsOf(const FlagsSlot& slot) {
  TensorStats stats;
  stats.numel = slot.elements;
  stats.nan = slot.nan;
  stats.posinf = slot.posinf;
  stats.neginf = slot.neginf;
  stats.finite = slot.elements - stats.nonfinite();
  stats.min = slot.least;
  stats.max = slot.greatest;
  stats.absmax = std::max(slot.greatest, 0 - slot.least);
  stats.squares = slot.squares;
  stats.partial = true;
  stats.grid_unknown = true;  // no kernel of a device takes it
  return stats;
}

TensorStats StatsOf(const FiguresSlot& slot) {
  TensorStats stats;
  stats.numel = slot.elements;
  stats.nan = slot.nan;
  stats.posinf = slot.posinf;
  stats.neginf = slot.neginf;
  stats.zeros = slot.zeros;
  stats.finite = slot.finite;
  stats.min = slot.min;
  stats.max = slot.max;
  stats.absmax = slot.absmax;
  stats.absmin = slot.absmin;
  stats.mean = slot.mean;
  stats.squared_deviation = slot.squared_deviation;
  stats.squares = slot.squares;
  stats.below_fp16 = slot.below_fp16;
  stats.subnormal_fp16 = slot.subnormal_fp16;
  stats.above_fp16 = slot.above_fp16;
  stats.near_fp16_max = slot.near_fp16_max;
  stats.grid_unknown = true;
  return stats;
}

ExponentHistogram ExponentsOf(const FiguresSlot& slot) {
  ExponentHistogram counts;
  std::copy(std::begin(slot.exponents), std::end(slot.exponents), counts.begin());
  return counts;
}

ReferenceError ErrorOf(const CompareSlot& slot) {
  ReferenceError found;
  found.numel = slot.elements;
  found.range = slot.range;
  found.undefined = slot.undefined;
  found.infinite = slot.infinite;
  found.reference_only = slot.reference_only;
  found.nonzero = slot.nonzero;
  found.flushed = slot.flushed;
  found.wrong_integers = slot.wrong_integers;
  found.clipped = slot.clipped;
  found.integers = slot.integers != 0;
  found.squared_error = slot.squared_error;
  found.squared_reference = slot.squared_reference;
  found.squared_flushed = slot.squared_flushed;
  found.max_error = slot.max_error;
  found.max_reference = slot.max_reference;
  found.max_held = slot.max_held;
  found.flushed_that_matter = static_cast<int64_t>(slot.flushed_that_matter);
  found.flushed_in_range = static_cast<int64_t>(slot.flushed_in_range);
  found.flushed_that_matter_in_range = static_cast<int64_t>(slot.flushed_that_matter_in_range);
  return found;
}

ChangeError ChangeOf(const ChangeSlot& slot) {
  return {slot.elements,    slot.moved,       slot.lost,           slot.change,
          slot.lost_change, slot.kept_change, slot.squared_change, slot.squared_error};
}

}  // namespace mpnanny::device
