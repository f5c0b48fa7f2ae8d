// What is not finite among some elements, and the least and the greatest of the others: of a
// thread, a block, a row.
#ifndef MPNANNY_NUMERICS_DEVICE_KERNELS_EXTENT_H_
#define MPNANNY_NUMERICS_DEVICE_KERNELS_EXTENT_H_

#include "numerics/device/kernels/elements.h"
#include "numerics/device/kernels/folding.h"

namespace mpnanny::device {

// Elements that are not finite, and the order of the others.
template <typename Type>
struct Extent {
  using Bits = typename Type::Bits;
  unsigned int nan = 0, posinf = 0, neginf = 0;
  Bits least = ~Bits{0}, greatest = 0;  // their OrderOf()

  // Whether it is finite.
  MPN_INLINE bool Add(Bits bits) {
    const Bits magnitude = bits & Type::kMagnitude;
    if (magnitude >= Type::kInfinity) {
      ++(magnitude > Type::kInfinity ? nan : bits == magnitude ? posinf : neginf);
      return false;
    }
    const Bits order = OrderOf(bits);
    least = order < least ? order : least;
    greatest = order > greatest ? order : greatest;
    return true;
  }
};

// The same of a block, then of a row. Keys only rise: what looks for the least has them inverted,
// and 0 says that there is none.
struct FoldedExtent {
  unsigned long long nan, posinf, neginf;
  unsigned long long least, greatest;

  template <typename Type>
  MPN_INLINE void Take(const Extent<Type>& own) {
    AddSome(nan, static_cast<unsigned long long>(own.nan));
    AddSome(posinf, static_cast<unsigned long long>(own.posinf));
    AddSome(neginf, static_cast<unsigned long long>(own.neginf));
    if (own.least > own.greatest) return;
    RaiseTo(least, ~OrderOf(BitsOf(Type::Value(BitsOfOrder(own.least)))));
    RaiseTo(greatest, OrderOf(BitsOf(Type::Value(BitsOfOrder(own.greatest)))));
  }
  MPN_INLINE void Leave(Partial& out) const {
    out.counts[0] = static_cast<unsigned int>(nan);
    out.counts[1] = static_cast<unsigned int>(posinf);
    out.counts[2] = static_cast<unsigned int>(neginf);
    out.keys[0] = least;
    out.keys[1] = greatest;
  }
  MPN_INLINE void Take(const Partial& part) {
    AddSome(nan, static_cast<unsigned long long>(part.counts[0]));
    AddSome(posinf, static_cast<unsigned long long>(part.counts[1]));
    AddSome(neginf, static_cast<unsigned long long>(part.counts[2]));
    RaiseTo(least, part.keys[0]);
    RaiseTo(greatest, part.keys[1]);
  }
  MPN_INLINE long long NotFinite() const { return static_cast<long long>(nan + posinf + neginf); }
  MPN_INLINE double Least() const { return least == 0 ? 0.0 : ValueOfOrder(~least); }
  MPN_INLINE double Greatest() const { return greatest == 0 ? 0.0 : ValueOfOrder(greatest); }
};

}  // namespace mpnanny::device

#endif  // MPNANNY_NUMERICS_DEVICE_KERNELS_EXTENT_H_
