// Whether a sentence tells in Chinese what it tells in English: the same figures, in Chinese words.
#ifndef MPNANNY_TESTS_RUNS_SAME_FIGURES_H_
#define MPNANNY_TESTS_RUNS_SAME_FIGURES_H_

#include <string>

#include "base/json.h"
#include "engines/runs/sentence.h"

namespace mpnanny::test {

// Every number of one occurs in the other.
void ExpectSameFigures(const std::string& english, const std::string& chinese);

// The same, and that the Chinese one has Chinese words.
void ExpectChinese(const std::string& english, const std::string& chinese);
void ExpectChinese(const runs::Sentence& sentence);

// Of an answer of diagnose_run with "zh": all that the page shows of it.
void ExpectChineseDiagnosis(const Json& diagnosis);

}  // namespace mpnanny::test

#endif  // MPNANNY_TESTS_RUNS_SAME_FIGURES_H_
