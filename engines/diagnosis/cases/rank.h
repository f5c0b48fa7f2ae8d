// Scores the cases of the knowledge base by how well their signals fit the facts, and says what
// speaks for and against. The order of an answer is made of that by causes.h.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_CASES_RANK_H_
#define MPNANNY_ENGINES_DIAGNOSIS_CASES_RANK_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engines/cases/case.h"
#include "engines/diagnosis/detectors/detector.h"
#include "engines/diagnosis/facts/facts.h"

namespace mpnanny::diagnosis {

struct Hypothesis {
  const cases::Case* cause = nullptr;  // borrowed from the library; nullptr: no case fits
  // What shadow steps measured, if it stands on that: an index into ShadowEvidence::mechanisms, and
  // the sentences made of it.
  std::optional<size_t> mechanism;
  runs::Sentence title, precision, fix;
  std::vector<std::string> lines;  // raw, where `mechanism` does not tell them
  double confidence = 0;           // 0…1
  double weight = 0;               // of the signals that fit
  Ground ground = Ground::kRecognised;
  bool telling = false;   // a sign that all but proves the case was seen for sure
  bool is_guess = false;  // a case that shows only what many others show as well
  std::vector<runs::Sentence> evidence, against;
  std::vector<const cases::Signal*>
      unseen;  // signals of the case that were looked for or could be looked for
};

// Highest score first; only cases of which at least one signal fits. Confidence is 1 - exp(-w
// / 2.2) of the matched weight w (a weight of 3 "all but proves" a case: 0.74; two such: 0.93),
// lowered by what speaks against.
std::vector<Hypothesis> Rank(const Facts& facts, const std::vector<Claim>& claims,
                             const cases::CaseLibrary& library);

// Whether the sign is among the case's signals, with a weight that all but proves it.
bool IsKnownBy(const cases::Case& entry, std::string_view sign);

// Whether the case is of a kind that the claim favours.
bool SpeaksFor(const Claim& claim, const cases::Case& entry);

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_CASES_RANK_H_
