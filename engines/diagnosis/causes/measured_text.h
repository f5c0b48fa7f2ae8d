// Sentences about what shadow steps measured: title, evidence and confidence of a cause that
// stands on the measurement and on no documented case.
//
// Free functions without state.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_CAUSES_MEASURED_TEXT_H_
#define MPNANNY_ENGINES_DIAGNOSIS_CAUSES_MEASURED_TEXT_H_

#include <string>
#include <vector>

#include "engines/diagnosis/facts/shadow_evidence.h"
#include "engines/runs/sentence.h"

namespace mpnanny::diagnosis {

// "float16 multiplication at model.py:12 (ffn, forward) gives Inf or NaN in 3 % of the elements, …"
runs::Sentence MeasuredTitle(const ShadowEvidence& measured, const Mechanism& mechanism);

// Whether it is precision, in one sentence: proven, excluded or not tested.
runs::Sentence PrecisionSentence(const ShadowEvidence& measured, const Mechanism& mechanism);

// Precision, reach, how often it was seen, and the other findings of the same mistake.
std::vector<runs::Sentence> MeasuredEvidence(const ShadowEvidence& measured,
                                             const Mechanism& mechanism);

// Of a result that came near the end of its format before something was not finite.
runs::Sentence NearLimitTitle(const runs::ShadowFinding& finding, const std::string& module);
runs::Sentence NearLimitEvidence(const runs::ShadowFinding& finding, int64_t first_bad_step);

// Whether it was found by comparing the run's own values from step to step, without the FP64
// reference, also in steps that have none.
bool ComparesWithItself(const runs::ShadowFinding& finding);

// How sure the cause is, by what stands behind it; bench/evaluations/diagnosis/confidence.md has
// the shares of right answers that these numbers come from.
double MeasuredConfidence(const ShadowEvidence& measured, const Mechanism& mechanism);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_CAUSES_MEASURED_TEXT_H_
