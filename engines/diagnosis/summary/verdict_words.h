// The verdict on a run as it is shown: one for the summary, the diagnosis and the report.
//
// Plain value and free function.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_VERDICT_WORDS_H_
#define MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_VERDICT_WORDS_H_

#include <string>
#include <string_view>

namespace mpnanny::run_summary {

// What the diagnosis says of a run (engines/diagnosis/program.h).
struct RunVerdict {
  std::string verdict;   // healthy | broken | degraded | not_established; "" where nobody judged
  std::string headline;  // its reason in a sentence
};

// "BROKEN", "NOT ESTABLISHED". Healthy numbers of a training that failed or was killed are not
// called a healthy run.
// `status`: as runs::StatusName() names it.
std::string VerdictWords(std::string_view verdict, std::string_view status);

}  // namespace mpnanny::run_summary

#endif  // MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_VERDICT_WORDS_H_
