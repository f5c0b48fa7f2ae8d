// Why an operator's result is a finding, or none.
//
// Plain values.
#ifndef MPNANNY_ENGINES_JUDGEMENT_WHY_H_
#define MPNANNY_ENGINES_JUDGEMENT_WHY_H_

#include "base/word.h"
#include "engines/judgement/tape.h"

namespace mpnanny {
namespace judgement {

enum class Why {
  kClean,
  kFound,
  kNotCompared,    // there are no figures
  kRestarts,       // the reference is not finite where the held value is
  kNoise,          // the reference is 0 but for rounding
  kCancels,        // it would be, had nothing wrong come in
  kCarried,        // not so many times what came in that it was made here
  kNotFinite,      // something that came in is not finite
  kFilled,         // a number among the arguments is not finite, as the -inf of a mask
  kMeantSo,        // an infinity was there before the step, as that of a mask
  kFewFlushed,     // of those that became 0 few matter
  kInRange,        // the type has numbers for those that became 0
  kFlushedBefore,  // they were 0 in an input already
  kFewIntegers,    // few whole numbers became others
  kTooLarge,       // FP64 does not hold whole numbers as large
  kNotWhole        // what came in was no whole number, or another one already
};

struct Verdict {
  Why why = Why::kNotCompared;
  int finding = kNone;  // that was made, or made worse
};

}  // namespace judgement

template <>
struct Vocabulary<judgement::Why> {
  static constexpr const char* kNames[] = {
      "clean",          "found",        "not_compared", "restarts", "noise",       "cancels",
      "carried",        "not_finite",   "filled",       "meant_so", "few_flushed", "in_range",
      "flushed_before", "few_integers", "too_large",    "not_whole"};
};

}  // namespace mpnanny

#endif  // MPNANNY_ENGINES_JUDGEMENT_WHY_H_
