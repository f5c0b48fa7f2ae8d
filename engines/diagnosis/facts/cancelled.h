// Gradients that are 0 but for rounding because the terms that they are sums of cancel out: the
// bias of a score that is subtracted from another one's, of keys in attention, before a
// normalisation. Nothing is lost there, in any format.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_CANCELLED_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_CANCELLED_H_

#include <optional>
#include <string>

#include "engines/diagnosis/facts/facts.h"

namespace mpnanny::diagnosis {

// The part of the elements of a parameter's gradient that cancelled out in every shadow step in
// which any did; nullopt where no shadow step has looked for that.
std::optional<double> MeasuredToCancel(const ShadowEvidence& measured, const std::string& layer);

// The same; where nothing was measured, 1 of a gradient whose size in all samples is what rounding
// leaves of a sum of the gradients of its module's output, while a larger tensor of the module has
// a gradient that is not.
double CancelledShare(const Facts& facts, const Series& gradient);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_CANCELLED_H_
