// `change`: what an operator that writes in place did to a tensor, held and in the reference, as
// CompareChange() tells it.
#ifndef MPNANNY_NUMERICS_DEVICE_KERNELS_CHANGE_H_
#define MPNANNY_NUMERICS_DEVICE_KERNELS_CHANGE_H_

#include "numerics/device/kernels/elements.h"
#include "numerics/device/kernels/folding.h"

namespace mpnanny::device {

inline constexpr int kChangeSums = 5;  // in the order of ChangeSlot

struct ChangeMemory {
  unsigned long long moved, lost;
  double sums[kChangeSums][kThreads];
};

struct Changed {
  unsigned int moved = 0, lost = 0;
  double sums[kChangeSums] = {};

  MPN_INLINE void Add(double held_before, double held_after, double reference_before,
                      double reference_after) {
    const double held = held_after - held_before, wanted = reference_after - reference_before;
    const unsigned long long own = BitsOf(held) & Wide::kMagnitude;
    const unsigned long long bits = BitsOf(wanted), size = bits & Wide::kMagnitude;
    if (own >= Wide::kInfinity || size >= Wide::kInfinity || size == 0) return;
    const double along = bits == size ? held : -held, change = DoubleOf(size),
                 error = held - wanted;
    ++moved;
    sums[0] += change;
    if (own == 0) {
      ++lost;
      sums[1] += change;
    }
    sums[2] += along;
    sums[3] += wanted * wanted;
    sums[4] += error * error;
  }
};

MPN_KERNEL(mpn_change)(const Table table, ChangeSlot* slots, Scratch* scratch) {
  MPN_SHARED ChangeMemory shared;
  const Place place = FindPlace(table, BlockNumber());
  MPN_EACH_THREAD(thread) {
    if (thread == 0) shared.moved = shared.lost = 0;
  }
  MPN_EACH_THREAD(thread) {
    const Part held_before = place.Of(table, 0), held_after = place.Of(table, 1);
    const Part reference_before = place.Of(table, 2), reference_after = place.Of(table, 3);
    Changed changed;
    const auto add = [&](int i) {
      changed.Add(DoubleOf(Wide::At(held_before, i)), DoubleOf(Wide::At(held_after, i)),
                  DoubleOf(Wide::At(reference_before, i)), DoubleOf(Wide::At(reference_after, i)));
    };
    MPN_ROLLED
    for (int i = thread; i < held_before.count; i += kThreads) add(i);
    AddSome(shared.moved, static_cast<unsigned long long>(changed.moved));
    AddSome(shared.lost, static_cast<unsigned long long>(changed.lost));
    MPN_UNROLL
    for (int i = 0; i < kChangeSums; ++i) shared.sums[i][thread] = changed.sums[i];
  }
  AddUp(shared.sums);
  MPN_EACH_THREAD(thread) {
    if (thread == 0) {
      Partial& own = scratch->partials[BlockNumber()];
      own.counts[0] = static_cast<unsigned int>(shared.moved);
      own.counts[1] = static_cast<unsigned int>(shared.lost);
      for (int i = 0; i < kChangeSums; ++i) own.values[i] = shared.sums[i][0];
    }
  }
  if (!IsLast(scratch->progress[place.row], place.blocks)) return;

  const Row& row = table.row[place.row];
  const Partial* const partials = scratch->partials + row.first_block;
  MPN_EACH_THREAD(thread) {
    if (thread == 0) shared.moved = shared.lost = 0;
  }
  MPN_EACH_THREAD(thread) {
    double sums[kChangeSums] = {};
    MPN_ROLLED
    for (int i = thread; i < place.blocks; i += kThreads) {
      AddSome(shared.moved, static_cast<unsigned long long>(partials[i].counts[0]));
      AddSome(shared.lost, static_cast<unsigned long long>(partials[i].counts[1]));
      MPN_UNROLL
      for (int k = 0; k < kChangeSums; ++k) sums[k] += partials[i].values[k];
    }
    MPN_UNROLL
    for (int k = 0; k < kChangeSums; ++k) shared.sums[k][thread] = sums[k];
  }
  AddUp(shared.sums);
  MPN_EACH_THREAD(thread) {
    if (thread == 0) {
      slots[row.slot] = {row.elements,
                         static_cast<long long>(shared.moved),
                         static_cast<long long>(shared.lost),
                         shared.sums[0][0],
                         shared.sums[1][0],
                         shared.sums[2][0],
                         shared.sums[3][0],
                         shared.sums[4][0]};
    }
  }
}

}  // namespace mpnanny::device

#endif  // MPNANNY_NUMERICS_DEVICE_KERNELS_CHANGE_H_
