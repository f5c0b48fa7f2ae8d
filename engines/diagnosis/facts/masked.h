// Values that are not finite and that nothing came of: rows that a mask takes out before they are
// used, tensors that are never read. They are told and decide nothing.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_MASKED_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_MASKED_H_

#include <string>

#include "base/result.h"
#include "engines/diagnosis/facts/facts.h"
#include "engines/runs/run.h"

namespace mpnanny::diagnosis {

// Whether nothing came of the value that the alert tells of: loss and gradients of its step are
// finite, and it is NaN, which spreads through all arithmetic (an infinity may leave a wrong finite
// value behind, 1 / Inf), or a shadow step saw it and found nothing that it reached.
Result<bool> IsMasked(const runs::Source& source, const Facts& facts, const SeenAlert& alert);

// "At step 0 and later there is NaN in …; nothing of it reached the loss, …".
runs::Sentence MaskedText(const Masked& masked);

// Whether a finding that is no fault names a line of the user's own code at which something is
// wrong in numbers that somebody may use.
bool IsWorthALook(const runs::ShadowFinding& finding);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_MASKED_H_
