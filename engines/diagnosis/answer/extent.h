// How much of a diagnosis an answer tells, for its JSON and its text.
//
// Plain values; free functions.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_ANSWER_EXTENT_H_
#define MPNANNY_ENGINES_DIAGNOSIS_ANSWER_EXTENT_H_

#include <string>
#include <vector>

#include "engines/diagnosis/cases/rank.h"
#include "engines/diagnosis/diagnosis.h"

namespace mpnanny::diagnosis {

// How much of an answer is told; every step down drops what matters least, until it fits.
struct Extent {
  size_t hypotheses, evidence, against, sentence, head, fix, other_fix, moments, limits, carriers,
      shadow, excerpts;
};
inline constexpr Extent kExtents[] = {{6, 8, 6, 600, 240, 3000, 1500, 40, 10, 8, 24, 8},
                                      {5, 6, 4, 420, 240, 1100, 300, 16, 8, 6, 4, 4},
                                      {4, 5, 3, 340, 240, 800, 220, 14, 6, 4, 3, 3},
                                      {3, 4, 2, 280, 220, 600, 160, 10, 5, 3, 2, 2},
                                      {2, 3, 2, 220, 200, 400, 120, 8, 4, 2, 1, 1},
                                      {1, 3, 1, 160, 160, 300, 80, 6, 3, 1, 1, 0}};

// Static findings that are told: those near the producer first.
inline constexpr size_t kCodeFindings = 3;

// The first `most` sentences, each within `bytes`.
std::vector<std::string> Cut(const std::vector<runs::Sentence>& sentences, size_t most,
                             size_t bytes, runs::Language language = runs::Language::kEnglish);

// What an answer about a log says first, with the places that it names.
std::string AboutLog(const Facts& facts, const Diagnosis& d);

// What was measured; of a cause that nothing was measured of, its case's title.
std::string TitleOf(const Hypothesis& h, runs::Language language = runs::Language::kEnglish);

// What to change: the measurement's first, then the case's.
std::string FixOf(const Hypothesis& h, size_t bytes,
                  runs::Language language = runs::Language::kEnglish);

double Rounded(double confidence);  // to two digits

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_ANSWER_EXTENT_H_
