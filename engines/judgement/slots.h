// The figures of a step's comparisons, by slot: the number that the front end gives to one of them,
// counted from 0 in each step.
#ifndef MPNANNY_ENGINES_JUDGEMENT_SLOTS_H_
#define MPNANNY_ENGINES_JUDGEMENT_SLOTS_H_

#include <deque>

#include "engines/judgement/tape.h"

namespace mpnanny::judgement {

class Slots {
 public:
  void Put(int slot, const ReferenceError& found) {
    if (slots_.size() <= static_cast<size_t>(slot)) slots_.resize(static_cast<size_t>(slot) + 1);
    slots_[static_cast<size_t>(slot)] = found;
  }
  // The figures in a slot, which stay where they are; null where there are none.
  const ReferenceError* At(int slot) const {
    if (slot < 0 || static_cast<size_t>(slot) >= slots_.size()) return nullptr;
    const ReferenceError& found = slots_[static_cast<size_t>(slot)];
    return found.numel > 0 ? &found : nullptr;
  }
  int size() const { return static_cast<int>(slots_.size()); }

 private:
  std::deque<ReferenceError> slots_;
};

}  // namespace mpnanny::judgement

#endif  // MPNANNY_ENGINES_JUDGEMENT_SLOTS_H_
