// What a log itself reports in words: kept beside the steps, each with its line.
//
// Plain values; free functions.
#ifndef MPNANNY_ENGINES_RUNS_SPOKEN_FAULTS_H_
#define MPNANNY_ENGINES_RUNS_SPOKEN_FAULTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engines/runs/run.h"

namespace mpnanny::runs {

// The type of their events. Only the importer of logs writes them.
inline constexpr std::string_view kSpokenFault = "spoken_fault";

struct SpokenFault {
  std::string fault;  // "nonfinite", "memory", "disk" (import/spoken.h)
  int64_t count = 0, first_line = 0, last_line = 0;
  int64_t first_step = 0, last_step = 0;  // the last step before it
  std::string text;                       // of the first line; raw
};

// Of the source's run, one of each kind, in the order of their first lines.
Result<std::vector<SpokenFault>> ReadSpokenFaults(const Source& source);

}  // namespace mpnanny::runs

#endif  // MPNANNY_ENGINES_RUNS_SPOKEN_FAULTS_H_
