// Why a run went wrong: verdict, first bad moment, ranked causes, time line, next measurement.
//
// Deterministic: the same record gives the same diagnosis. Every sentence stands on a fact of the
// record; what the record cannot tell is said in `limits`.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_DIAGNOSIS_H_
#define MPNANNY_ENGINES_DIAGNOSIS_DIAGNOSIS_H_

#include <string>
#include <utility>
#include <vector>

#include "engines/cases/case.h"
#include "engines/diagnosis/detectors/detector.h"
#include "engines/diagnosis/facts/facts.h"
#include "engines/diagnosis/cases/rank.h"
#include "engines/diagnosis/summary/verdict_words.h"

namespace mpnanny::diagnosis {

struct Moment {
  int64_t step = 0;
  std::string what;
};

struct Diagnosis {
  Health verdict = Health::kNotEstablished;
  runs::Sentence reason;    // why the verdict is what it is
  runs::Sentence headline;  // that, and what was measured
  // The record's onset; where nothing is not finite, where the fault began that the best hypothesis
  // stands on.
  std::optional<Onset> first_bad;
  std::vector<Hypothesis> hypotheses;        // best first; none for a healthy run
  std::vector<runs::Sentence> observations;  // what the detectors claim
  std::vector<std::string> tested,
      not_tested;                // what a verdict rests on, and what nobody looked at
  std::vector<Moment> timeline;  // ascending
  runs::Sentence next_measurement;
  std::vector<runs::Sentence> limits;
};

// `library` must outlive the result.
Diagnosis Diagnose(const Facts& facts, const cases::CaseLibrary& library);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_DIAGNOSIS_H_
