// The verdict on a run as it is shown: one for the summary, the diagnosis and the report.
//
// Plain value and free function.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_VERDICT_WORDS_H_
#define MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_VERDICT_WORDS_H_

#include <optional>
#include <string>
#include <string_view>

#include "base/word.h"
#include "engines/runs/run.h"

namespace mpnanny {

// How a run is. Not established: what was recorded does not tell.
enum class Health { kHealthy, kDegraded, kBroken, kNotEstablished };

template <>
struct Vocabulary<Health> {
  static constexpr const char* kNames[] = {"healthy", "degraded", "broken", "not_established"};
};

}  // namespace mpnanny

namespace mpnanny::summary {

// What the diagnosis says of a run (engines/diagnosis/program.h).
struct RunVerdict {
  std::optional<Health> verdict;  // nullopt: nobody judged
  std::string headline;           // its reason in a sentence
};

// "BROKEN", "NOT ESTABLISHED". Healthy numbers of a training that failed or was killed are not
// called a healthy run.
std::string VerdictWords(std::optional<Health> verdict, runs::Status status);

}  // namespace mpnanny::summary

#endif  // MPNANNY_ENGINES_DIAGNOSIS_SUMMARY_VERDICT_WORDS_H_
