// `flags`: is it finite, its least and greatest value, the sum of its squares. What a training is
// asked at each step.
#ifndef MPNANNY_NUMERICS_DEVICE_KERNELS_FLAGS_H_
#define MPNANNY_NUMERICS_DEVICE_KERNELS_FLAGS_H_

#include "numerics/device/kernels/extent.h"

namespace mpnanny::device {

struct FlagsMemory {
  FoldedExtent extent;
  double squares[1][kThreads];
};

template <typename Type>
MPN_INLINE void ReadFlags(const Part& part, int thread, FlagsMemory& shared) {
  Extent<Type> extent;
  double squares = 0;
  ForEachElement<Type>(part, thread, [&](typename Type::Bits bits) {
    if (!extent.Add(bits)) return;
    const double value = Type::Value(bits);
    squares += value * value;
  });
  shared.extent.Take(extent);
  shared.squares[0][thread] = squares;
}

MPN_KERNEL(mpn_flags)(const FlagsTable table, FlagsSlot* slots, Scratch* scratch) {
  MPN_SHARED FlagsMemory shared;
  const Place place = FindPlace(table, BlockNumber());
  const Part part = place.Of(table);
  MPN_EACH_THREAD(thread) {
    if (thread == 0) shared.extent = {};
  }
  MPN_EACH_THREAD(thread) {
    if (part.dtype == kFp64) {
      ReadFlags<Wide>(part, thread, shared);
    } else {
      ReadFlags<Narrow>(part, thread, shared);
    }
  }
  AddUp(shared.squares);
  Partial* const partials = scratch->partials + static_cast<int>(table.row[place.row].first_block);
  MPN_EACH_THREAD(thread) {
    if (thread == 0) {
      Partial& own = scratch->partials[BlockNumber()];
      shared.extent.Leave(own);
      own.values[0] = shared.squares[0][0];
    }
  }
  if (!IsLast(scratch->progress[place.row], place.blocks)) return;
  MPN_EACH_THREAD(thread) {
    if (thread == 0) shared.extent = {};
  }
  MPN_EACH_THREAD(thread) {
    double squares = 0;
    MPN_ROLLED
    for (int i = thread; i < place.blocks; i += kThreads) {
      shared.extent.Take(partials[i]);
      squares += partials[i].values[0];
    }
    shared.squares[0][thread] = squares;
  }
  AddUp(shared.squares);
  MPN_EACH_THREAD(thread) {
    if (thread == 0) {
      const FoldedExtent& extent = shared.extent;
      slots[table.first_slot + place.row] = {static_cast<long long>(table.row[place.row].elements),
                                             static_cast<long long>(extent.nan),
                                             static_cast<long long>(extent.posinf),
                                             static_cast<long long>(extent.neginf),
                                             extent.Least(),
                                             extent.Greatest(),
                                             shared.squares[0][0]};
    }
  }
}

}  // namespace mpnanny::device

#endif  // MPNANNY_NUMERICS_DEVICE_KERNELS_FLAGS_H_
