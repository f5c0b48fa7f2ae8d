// What the rows of the verdict's table are asked with, and what they answer.
//
// Plain values.
#ifndef MPNANNY_ENGINES_DIAGNOSIS_VERDICT_RULING_H_
#define MPNANNY_ENGINES_DIAGNOSIS_VERDICT_RULING_H_

#include <optional>
#include <utility>
#include <vector>

#include "engines/diagnosis/detectors/detector.h"
#include "engines/diagnosis/diagnosis.h"
#include "engines/diagnosis/facts/facts.h"

namespace mpnanny::diagnosis {

struct Asked {
  const Facts& facts;
  const std::vector<Claim>& claims;
  const summary::Summary& steps;  // of `facts`
};

struct Ruling {
  Health verdict = Health::kNotEstablished;
  runs::Sentence reason;
};
using Answer = std::optional<Ruling>;

inline Answer Broken(runs::Sentence reason) { return Ruling{Health::kBroken, std::move(reason)}; }
inline Answer Degraded(runs::Sentence reason) {
  return Ruling{Health::kDegraded, std::move(reason)};
}
inline Answer NotEstablished(runs::Sentence reason) {
  return Ruling{Health::kNotEstablished, std::move(reason)};
}

// "60 steps": how many of what a record's rows are. A log has few of a run's steps, and some say no
// step at all.
inline runs::Sentence CountOfRows(const Facts& facts, int64_t count) {
  return {facts.monitored  ? runs::Form("{0:step}", "{0} 步")
          : facts.numbered ? runs::Form("{0:logged step}", "{0} 个有记录的步")
                           : runs::Form("{0:logged line}", "{0} 行日志"),
          {count}};
}

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_ENGINES_DIAGNOSIS_VERDICT_RULING_H_
