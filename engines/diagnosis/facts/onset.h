// The first bad moment of a monitored run: step, phase, layer, and how well its place is known.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_FACTS_ONSET_H_
#define MPNANNY_ENGINES_DIAGNOSIS_FACTS_ONSET_H_

#include <optional>

#include "base/result.h"
#include "engines/diagnosis/facts/facts.h"
#include "engines/diagnosis/facts/step_course.h"
#include "engines/runs/run.h"

namespace mpnanny::diagnosis {

// An ERROR about a value that is not finite, or beyond its format.
bool IsValueAlert(const SeenAlert& alert);

// "activation gradient": of which kind a tensor is (runs::TensorRow).
runs::Sentence KindWord(int64_t kind);

// Says which sample before the onset is finite everywhere, and of an onset without a layer that
// this is all that is known.
void SetLastClean(std::optional<int64_t> sample, Onset& onset);

// Looks at the alerts first (`facts.alerts`), then at the steps (`course`), then at the samples and
// the flight recorder for the layer. Non-finite gradients that the scaler skipped and the run got
// over are no onset: that is how a scaler works.
// Nor is a value that nothing came of: it goes into `masked`.
Result<std::optional<Onset>> FindOnset(const runs::Source& source, const Facts& facts,
                                       const StepCourse& course, runs::Layers& layers,
                                       std::optional<Masked>& masked);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_FACTS_ONSET_H_
